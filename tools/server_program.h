// SPDX-License-Identifier: Apache-2.0
// The common part of echo_server and kv_server: the options for address, port, device and trust,
// and an orderly end on SIGTERM or SIGINT.
#pragma once

#include <fmt/format.h>

#include <csignal>
#include <cstdint>
#include <string>

#include "tools/device_options.h"
#include "tools/trust_options.h"

namespace verbena::tools {

struct ServerOptions {
	std::string listen = "0.0.0.0";
	std::uint16_t port = 0;
	std::string device;
	std::uint32_t poll_us = 50;
	channel::TrustOptions trust;
};

inline void add_listening(CLI::App& app, ServerOptions& options, const std::string& port_text) {
	app.add_option("--listen", options.listen, "Address to listen at")->capture_default_str();
	app.add_option("--port", options.port, port_text)->capture_default_str()->check(CLI::Range(0u, 65'535u));
}

inline void add_device_and_trust(CLI::App& app, ServerOptions& options) {
	add_device_option(app, options.device);
	app.add_option(
		   "--poll-us", options.poll_us, "Microseconds that a thread polls after its last work, before it sleeps")
		->capture_default_str()
		->check(CLI::Range(0u, 1'000'000u));
	add_trust(app, options.trust);
}

// "at most 3 clients were connected at a time"
inline std::string most_clients(std::uint64_t peak) {
	return fmt::format("at most {} {} connected at a time", peak, peak == 1 ? "client was" : "clients were");
}

// Calls stop() of the service on SIGTERM and SIGINT while the object lives. A reader of the
// server's output that ends does not end the server.
//
// Threads: Service::stop() must be safe to call in a signal handler.
// Invariants: one object at a time in a process.
template <class Service> class StopOnSignal {
public:
	explicit StopOnSignal(Service& service) {
		running_ = &service;
		std::signal(SIGPIPE, SIG_IGN);
		for (const int signal : {SIGTERM, SIGINT})
			std::signal(signal, [](int) {
				if (running_ != nullptr) running_->stop();
			});
	}
	~StopOnSignal() { running_ = nullptr; }
	StopOnSignal(const StopOnSignal&) = delete;
	StopOnSignal& operator=(const StopOnSignal&) = delete;

private:
	static inline Service* running_ = nullptr;
};

}  // namespace verbena::tools
