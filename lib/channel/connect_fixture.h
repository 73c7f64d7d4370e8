// SPDX-License-Identifier: Apache-2.0
// For tests of set-up: a server whose set-ups have a thread of their own, and a client's side.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "lib/channel/acceptor.h"
#include "lib/channel/managed.h"
#include "lib/channel/rc_fixture.h"
#include "lib/channel/setup/fixture.h"

namespace verbena::channel::testing_tools {

using async::Task;

inline constexpr RcOptions small{.units_start = 64, .units_max = 4096, .connections_max = 64};

inline Task<void> serve_echo(std::unique_ptr<Channel> channel) {
	while (auto message = co_await channel->receive())
		if (!co_await channel->send(message->bytes())) break;
	channel->close();
	co_await channel->until_closed();
}

// An address of the transport's device, which rdma_cm can reach too, with this port.
inline std::string address_of_device(const RcTransport& transport, std::uint16_t port) {
	return lib::format_address(lib::address_of(transport.device().choice.gid, port).value().get());
}

// A server whose set-ups have a thread of their own, beside the channels' one.
class Server {
public:
	explicit Server(Protection protection, AcceptorOptions options = {}, const RcOptions& rc = small) {
		transport_ = RcTransport::open(io_, test_device(), rc).value();
		options.protection = std::move(protection);
		options.observe = [this](const SetupReport& report) {
			const std::lock_guard guard(lock_);
			reports_.push_back(report);
			heard_.notify_all();
		};
		acceptor_ = std::make_unique<Acceptor>(
			setup_, async::listen(setup_, async::resolve(address(0), 0).value()).value(), *transport_, options,
			[this](std::unique_ptr<Channel> channel) { io_.spawn(serve_echo(std::move(channel))); },
			[](const std::string&) {});
		acceptor_->start();
		const auto managed = acceptor_->listen_managed();
		EXPECT_TRUE(managed.has_value()) << managed.error();
		threads_[0] = std::thread([this] { setup_.run(); });
		threads_[1] = std::thread([this] { io_.run(); });
	}
	~Server() {
		setup_.stop();
		io_.stop();
		for (std::thread& each : threads_) each.join();
		setup_.abandon_spawned();
		io_.abandon_spawned();
	}
	std::string where() const { return address(acceptor_->port()); }
	// The outcome of the next set-up that ends, as a word.
	std::string report() {
		std::unique_lock guard(lock_);
		if (!heard_.wait_for(guard, std::chrono::seconds(10), [this] { return !reports_.empty(); }))
			return "nothing in 10 s";
		const SetupReport first = reports_.front();
		reports_.pop_front();
		return std::string(first.cause());
	}
	// The channels' thread is busy with something else for that long.
	void occupy_channels(std::chrono::milliseconds time) {
		io_.post([until = std::chrono::steady_clock::now() + time] { std::this_thread::sleep_until(until); });
	}
	// Queue pairs that exist now, whether their clients have proved themselves or not.
	std::size_t channels() {
		std::promise<std::size_t> count;
		io_.post([&] { count.set_value(transport_->channels()); });
		return count.get_future().get();
	}

	AcceptorCounters counters() {
		return asked<AcceptorCounters>([](const Acceptor& acceptor) { return acceptor.counters(); });
	}
	// Clients whose set-up has begun, or waits to begin.
	std::size_t clients() {
		return asked<std::size_t>([](const Acceptor& acceptor) { return acceptor.accepted() + acceptor.under_way(); });
	}
	void stop_accepting() {
		setup_.post([this] { acceptor_->stop(); });
	}

private:
	// The answer of the acceptor, on its thread.
	template <class T> T asked(const std::function<T(const Acceptor&)>& question) {
		std::promise<T> answer;
		setup_.post([&] { answer.set_value(question(*acceptor_)); });
		return answer.get_future().get();
	}
	std::string address(std::uint16_t port) const { return address_of_device(*transport_, port); }

	async::Loop setup_{{.spin = 0}}, io_{{.spin = 0}};
	std::unique_ptr<RcTransport> transport_;
	std::unique_ptr<Acceptor> acceptor_;
	std::mutex lock_;
	std::condition_variable heard_;
	std::deque<SetupReport> reports_;
	std::thread threads_[2];
};

// Connections that have sent these bytes and do nothing more.
class Stalled {
public:
	Stalled(async::Loop& loop, const std::string& where, std::size_t count, const std::vector<std::byte>& sent)
		: sockets_(count) {
		loop.complete([](async::Loop& loop, async::Address to, std::vector<async::Socket>& sockets,
						  const std::vector<std::byte>& sent) -> Task<void> {
			for (async::Socket& each : sockets) {
				each = (co_await async::connect(loop, to, never)).value();
				EXPECT_TRUE(co_await async::write_all(*each, sent, never));
			}
		}(loop, async::resolve(where, 0).value(), sockets_, sent));
	}

private:
	std::vector<async::Socket> sockets_;
};

// The first message of a client that begins TLS.
inline std::vector<std::byte> client_hello(const Protection& protection) {
	Handshake handshake = Handshake::client(
		{.protection = protection, .host = "127.0.0.1", .started = monotonic_now()}, parameters_of(Role::client));
	std::vector<std::byte> bytes(handshake.pending());
	bytes.resize(handshake.take(bytes));
	return bytes;
}

class Connect : public ::testing::Test {
protected:
	Connect()
		: transport_(RcTransport::open(loop_, test_device(), small).value()),
		  files_("test authority", {async::split_host(address_of_device(*transport_, 1), 1).value().host}) {}

	ConnectOptions to(const std::string& where, Protection protection) {
		return {.protection = std::move(protection), .host = where, .patience = 5'000'000'000};
	}
	// The client's error for a connection that should fail.
	std::string refusal(ConnectOptions options) {
		std::string why;
		loop_.complete([](RcTransport& transport, ConnectOptions options, std::string& out) -> Task<void> {
			const auto channel = co_await connect(transport, std::move(options));
			out = channel ? "it was accepted" : channel.error();
		}(*transport_, std::move(options), why));
		return why;
	}
	// Connects that many clients at the same time; all must succeed.
	void connect_all(const std::string& where, int count) {
		const Protection mine = made(make_client_protection(files_.client));
		int ended = 0;
		for (int i = 0; i < count; ++i) {
			ConnectOptions options = to(where, mine);
			options.patience = 20'000'000'000;
			loop_.spawn([](RcTransport& transport, ConnectOptions options, int& ended) -> Task<void> {
				const auto channel = co_await connect(transport, std::move(options));
				if (!channel) ADD_FAILURE() << channel.error();
				++ended;
			}(*transport_, std::move(options), ended));
		}
		loop_.run_until([&] { return ended == count; });
	}
	static Task<void> ask(Channel& channel, std::string& heard) {
		EXPECT_TRUE(co_await channel.send(bytes_of("question")));
		const auto message = co_await channel.receive();
		EXPECT_TRUE(message.has_value()) << channel.reason();
		if (message) heard.assign(reinterpret_cast<const char*>(message->bytes().data()), message->bytes().size());
		channel.close();
		co_await channel.until_closed();
	}

	// Sends a message of that size and expects it back.
	static Task<void> ask_back(Channel& channel, std::size_t size) {
		const std::vector<std::byte> question(size);
		EXPECT_TRUE(co_await channel.send(question));
		const auto message = co_await channel.receive();
		EXPECT_TRUE(message && message->bytes().size() == size) << channel.reason();
		channel.close();
		co_await channel.until_closed();
	}

	async::Loop loop_{{.spin = 0}};
	std::unique_ptr<RcTransport> transport_;
	testing_tools::AuthorityFiles files_;  // the server's certificate names the device, too
};

}  // namespace verbena::channel::testing_tools
