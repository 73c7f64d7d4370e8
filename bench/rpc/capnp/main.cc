// SPDX-License-Identifier: Apache-2.0
// rpc_capnp: the same cells with Cap'n Proto RPC: one event loop at each end, over TCP in plain
// text. See peer.h for its arguments and output.
#include <calls.capnp.h>
#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>
#include <kj/debug.h>

#include <string>
#include <thread>
#include <vector>

#include "bench/rpc/payload.h"
#include "bench/rpc/peer.h"
#include "bench/rpc/processes.h"

namespace verbena::rpcbench {
namespace {

std::string_view text_of(capnp::Data::Reader bytes) {
	return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}
kj::ArrayPtr<const kj::byte> data_of(std::string_view text) {
	return {reinterpret_cast<const kj::byte*>(text.data()), text.size()};
}

capnp::ReaderOptions unlimited() {
	capnp::ReaderOptions options;
	options.traversalLimitInWords = std::uint64_t{1} << 40;
	return options;
}

class Service final : public Calls::Server {
public:
	explicit Service(std::uint64_t& served) : served_(served) {}

private:
	kj::Promise<void> sink(SinkContext context) override {
		++served_;
		KJ_REQUIRE(is_whole(text_of(context.getParams().getBytes())), "the payload arrived damaged");
		context.getResults().setBytes(data_of(reply_of_sink));
		return kj::READY_NOW;
	}
	kj::Promise<void> echo(EchoContext context) override {
		++served_;
		context.getResults().setBytes(context.getParams().getBytes());
		return kj::READY_NOW;
	}
	std::uint64_t& served_;
};

// The server's end of a connection.
struct Served {
	Served(kj::Own<kj::AsyncIoStream> of, Calls::Client service)
		: stream(kj::mv(of)),
		  network(*stream, capnp::rpc::twoparty::Side::SERVER, unlimited()),
		  rpc(capnp::makeRpcServer(network, kj::mv(service))) {}
	kj::Own<kj::AsyncIoStream> stream;
	capnp::TwoPartyVatNetwork network;
	capnp::RpcSystem<capnp::rpc::twoparty::VatId> rpc;
};

kj::Promise<void> accept_all(
	kj::ConnectionReceiver& listener, Calls::Client& service, std::vector<kj::Own<Served>>& all) {
	return listener.accept().then([&](kj::Own<kj::AsyncIoStream> stream) {
		all.push_back(kj::heap<Served>(kj::mv(stream), service));
		return accept_all(listener, service, all);
	});
}

void serve(const CellOptions&, Board& board) {
	auto io = kj::setupAsyncIo();
	std::uint64_t served = 0;
	Calls::Client service = kj::heap<Service>(served);
	auto address = io.provider->getNetwork().parseAddress("127.0.0.1:0").wait(io.waitScope);
	auto listener = address->listen();
	std::vector<kj::Own<Served>> all;
	auto accepting = accept_all(*listener, service, all).eagerlyEvaluate(nullptr);
	auto ended = kj::newPromiseAndCrossThreadFulfiller<void>();
	std::thread watcher([&, port = static_cast<int>(listener->getPort())] {
		stand_by(board, port);
		ended.fulfiller->fulfill();
	});
	ended.promise.wait(io.waitScope);
	watcher.join();
	board.outcome.served = served;
	all.clear();
}

// One of the callers: calls again as soon as it has its answer.
class Caller {
public:
	Caller(Calls::Client& service, const CellOptions& options, Pace& pace, std::uint64_t number)
		: service_(service), options_(options), pace_(pace), number_(number), payload_(options.size, ' ') {
		fill(payload_);
	}
	kj::Promise<void> call() {
		if (pace_.over()) return kj::READY_NOW;
		stamp(payload_, number_);
		number_ += options_.concurrency;
		began_ = monotonic_now();
		return (options_.mode == Mode::sink ? call_sink() : call_echo()).then([this](bool good) {
			pace_.ended(began_, good);
			return call();
		});
	}

private:
	capnp::MessageSize size_hint() const { return {options_.size / sizeof(capnp::word) + 16, 0}; }
	kj::Promise<bool> call_sink() {
		auto request = service_.sinkRequest(size_hint());
		request.setBytes(data_of(payload_));
		return request.send().then([](auto&& answer) { return text_of(answer.getBytes()) == reply_of_sink; });
	}
	kj::Promise<bool> call_echo() {
		auto request = service_.echoRequest(size_hint());
		request.setBytes(data_of(payload_));
		return request.send().then([this](auto&& answer) { return text_of(answer.getBytes()) == payload_; });
	}

	Calls::Client& service_;
	const CellOptions& options_;
	Pace& pace_;
	std::uint64_t number_;
	std::string payload_;
	Nanoseconds began_ = 0;
};

struct Connection {
	explicit Connection(kj::Own<kj::AsyncIoStream> of)
		: stream(kj::mv(of)),
		  network(*stream, capnp::rpc::twoparty::Side::CLIENT, unlimited()),
		  rpc(capnp::makeRpcClient(network)),
		  service(rpc.bootstrap(server_id()).castAs<Calls>()) {}
	static capnp::rpc::twoparty::VatId::Reader server_id() {
		static capnp::MallocMessageBuilder message(4);
		auto id = message.getRoot<capnp::rpc::twoparty::VatId>();
		id.setSide(capnp::rpc::twoparty::Side::SERVER);
		return id;
	}
	kj::Own<kj::AsyncIoStream> stream;
	capnp::TwoPartyVatNetwork network;
	capnp::RpcSystem<capnp::rpc::twoparty::VatId> rpc;
	Calls::Client service;
};

void call(const CellOptions& options, Board& board) {
	const int port = wait_for_port(board);
	if (port == 0) return;
	auto io = kj::setupAsyncIo();
	auto address = io.provider->getNetwork().parseAddress("127.0.0.1", static_cast<kj::uint>(port)).wait(io.waitScope);
	std::vector<kj::Own<Connection>> connections;
	for (std::uint32_t i = 0; i < options.connections; ++i)
		connections.push_back(kj::heap<Connection>(address->connect().wait(io.waitScope)));
	Pace pace(options, board);
	std::vector<std::unique_ptr<Caller>> callers;
	auto under_way = kj::heapArrayBuilder<kj::Promise<void>>(options.concurrency);
	for (std::uint32_t i = 0; i < options.concurrency; ++i) {
		callers.push_back(std::make_unique<Caller>(connections[i % connections.size()]->service, options, pace, i));
		under_way.add(callers.back()->call());
	}
	std::thread keeper([&] { pace.keep(); });
	kj::joinPromises(under_way.finish()).wait(io.waitScope);
	keeper.join();
	board.outcome.callers = options.concurrency;
	board.wait_for(board.server_reported);
	if (board.outcome.requests == 0) board.fail("no request was answered");
	connections.clear();
}

}  // namespace
}  // namespace verbena::rpcbench

int main(int count, char** words) {
	return verbena::rpcbench::peer_main(count, words, verbena::rpcbench::serve, verbena::rpcbench::call);
}
