// SPDX-License-Identifier: Apache-2.0
// rpc_grpc: the same cells with gRPC: its callback API at both ends, one server and one client
// process, over TCP in plain text. See peer.h for its arguments and output.
#include <calls.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <latch>
#include <memory>
#include <optional>
#include <vector>

#include "bench/rpc/payload.h"
#include "bench/rpc/peer.h"
#include "bench/rpc/processes.h"

namespace verbena::rpcbench {
namespace {

class Service final : public Calls::CallbackService {
public:
	grpc::ServerUnaryReactor* Sink(
		grpc::CallbackServerContext* context, const Payload* request, Payload* reply) override {
		++served;
		reply->set_bytes(std::string(reply_of_sink));
		return finish(context, is_whole(request->bytes()));
	}
	grpc::ServerUnaryReactor* Echo(
		grpc::CallbackServerContext* context, const Payload* request, Payload* reply) override {
		++served;
		reply->set_bytes(request->bytes());
		return finish(context, true);
	}
	std::atomic<std::uint64_t> served{0};

private:
	static grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, bool good) {
		grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
		reactor->Finish(
			good ? grpc::Status::OK : grpc::Status(grpc::StatusCode::DATA_LOSS, "the payload arrived damaged"));
		return reactor;
	}
};

void serve(const CellOptions&, Board& board) {
	Service service;
	grpc::ServerBuilder builder;
	int port = 0;
	builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
	builder.SetMaxReceiveMessageSize(-1);
	builder.RegisterService(&service);
	const auto server = builder.BuildAndStart();
	if (!server) return board.fail("gRPC's server could not start");
	stand_by(board, port);
	board.outcome.served = service.served;
	server->Shutdown();
}

// One of the callers: its callback, on one of gRPC's threads, makes the next call.
class Caller {
public:
	Caller(Calls::Stub& stub, const CellOptions& options, Pace& pace, std::latch& left, std::uint64_t number)
		: stub_(stub), options_(options), pace_(pace), left_(left), number_(number), payload_(options.size, ' ') {
		fill(payload_);
	}
	void call() {
		stamp(payload_, number_);
		number_ += options_.concurrency;
		context_.emplace();
		request_.set_bytes(payload_);
		began_ = monotonic_now();
		const auto answered = [this](const grpc::Status& status) { handle(status); };
		if (options_.mode == Mode::sink) stub_.async()->Sink(&*context_, &request_, &reply_, answered);
		else stub_.async()->Echo(&*context_, &request_, &reply_, answered);
	}

private:
	void handle(const grpc::Status& status) {
		pace_.ended(began_,
			status.ok() &&
				reply_.bytes() == (options_.mode == Mode::sink ? reply_of_sink : std::string_view(payload_)));
		if (pace_.over() || !status.ok()) left_.count_down();
		else call();
	}

	Calls::Stub& stub_;
	const CellOptions& options_;
	Pace& pace_;
	std::latch& left_;
	std::uint64_t number_;
	std::string payload_;
	std::optional<grpc::ClientContext> context_;
	Payload request_, reply_;
	Nanoseconds began_ = 0;
};

void call(const CellOptions& options, Board& board) {
	const int port = wait_for_port(board);
	if (port == 0) return;
	std::vector<std::unique_ptr<Calls::Stub>> stubs;
	for (std::uint32_t i = 0; i < options.connections; ++i) {
		grpc::ChannelArguments arguments;
		arguments.SetMaxReceiveMessageSize(-1);
		// Unequal arguments, because channels with equal ones share a connection.
		arguments.SetInt("connection", static_cast<int>(i));
		stubs.push_back(Calls::NewStub(grpc::CreateCustomChannel(
			"127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments)));
	}
	Pace pace(options, board);
	std::latch left(options.concurrency);
	std::vector<std::unique_ptr<Caller>> callers;
	for (std::uint32_t i = 0; i < options.concurrency; ++i) {
		callers.push_back(std::make_unique<Caller>(*stubs[i % stubs.size()], options, pace, left, i));
		callers.back()->call();
	}
	pace.keep();
	left.wait();
	board.outcome.callers = options.concurrency;
	board.wait_for(board.server_reported);
	if (board.outcome.requests == 0) board.fail("no request was answered");
}

}  // namespace
}  // namespace verbena::rpcbench

int main(int count, char** words) {
	return verbena::rpcbench::peer_main(count, words, verbena::rpcbench::serve, verbena::rpcbench::call);
}
