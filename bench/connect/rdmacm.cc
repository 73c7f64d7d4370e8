// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/rdmacm.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>

#include "bench/far_end/failure.h"

namespace verbena::connect {

using bench::Failure;
using bench::take;
using namespace std::chrono_literals;

namespace {

// The time for resolving address and route. The connection manager has time-outs of its own for the
// rest.
constexpr auto patience = 5s;
constexpr int backlog = 1024;

// Interrupts the server thread's wait in rdma_get_cm_event; its handler does nothing.
constexpr int wake_signal = SIGUSR1;

bool rdma_cm_serves(const lib::Choice& choice) {
	const auto at = lib::address_of(choice.gid, 0);
	const auto channel = take(lib::make_event_channel());
	if (!at) return false;
	const auto id = lib::resolve(channel.get(), *at, 2s, nullptr);
	return id && (*id)->verbs != nullptr && ibv_get_device_name((*id)->verbs->device) == choice.device;
}

}  // namespace

lib::Choice choose_device(const lib::DeviceRequest& wish) {
	auto devices = take(lib::list_devices());
	while (true) {
		const auto choice = take(lib::choose(devices, wish));
		if (rdma_cm_serves(choice)) return choice;
		if (!wish.device.empty())
			throw Failure(fmt::format(
				"rdma_cm does not serve {} ({}): choose another --device", choice.device, lib::format_gid(choice.gid)));
		std::erase_if(devices, [&](const lib::DeviceInfo& each) { return each.name == choice.device; });
	}
}

std::unique_ptr<Shared> Shared::on(rdma_cm_id* id) {
	auto device = take(lib::device_of(id));
	auto completions = take(lib::make_completion_queue(device.context.get(), 16));
	return std::make_unique<Shared>(std::move(device), std::move(completions));
}

void End::make_queue_pair(Shared& shared) {
	qp = take(lib::make_queue_pair(shared.device, shared.completions.get(),
				  {.send_depth = 1, .receive_depth = 1, .connection = id.get()}))
			 .qp;
}

// ---- the active end

RdmacmConnector::RdmacmConnector(const lib::SocketAddress& server, std::optional<lib::SocketAddress> from)
	: server_(server), from_(from), channel_(take(lib::make_blocking_event_channel())) {
	const auto probing = take(lib::make_event_channel());
	shared_ = Shared::on(take(lib::resolve(probing.get(), server_, patience, from_ ? &*from_ : nullptr)).get());
}

void RdmacmConnector::Attempt::part_is_over() {
	const Nanoseconds now = monotonic_now();
	report.parts[part++] = now - last;
	last = now;
}

void RdmacmConnector::begin(std::uint32_t number) {
	auto& attempt = attempts_[number] = std::make_unique<Attempt>();
	attempt->number = attempt->report.number = number;
	attempt->report.began = attempt->last = monotonic_now();
	attempt->id = take(lib::begin_resolve(channel_.get(), server_, patience, from_ ? &*from_ : nullptr, attempt.get()));
}

void RdmacmConnector::end(std::uint32_t number) {
	Attempt& attempt = *attempts_.at(number);
	attempt.report = {.number = number, .kind = Report::Kind::disconnected, .began = monotonic_now()};
	if (rdma_disconnect(attempt.id.get()) != 0) throw Failure(lib::failure("rdma_disconnect", errno));
}

Report RdmacmConnector::next() {
	while (true) {
		const auto event = take(lib::wait_for_event(channel_.get()));
		if (!event) continue;
		auto& attempt = *static_cast<Attempt*>(event->context);
		rdma_cm_id* id = attempt.id.get();
		const bool ending = attempt.report.kind == Report::Kind::disconnected;
		switch (event->type) {
			case RDMA_CM_EVENT_ADDR_RESOLVED:
				attempt.part_is_over();
				take(lib::begin_route(id, patience));
				continue;
			case RDMA_CM_EVENT_ROUTE_RESOLVED:
				attempt.part_is_over();
				attempt.make_queue_pair(*shared_);
				attempt.part_is_over();
				take(lib::begin_connect(id, {}, shared_->device.attributes));
				continue;
			case RDMA_CM_EVENT_ESTABLISHED: {
				attempt.part_is_over();
				attempt.report.ended = attempt.last;
				return attempt.report;
			}
			case RDMA_CM_EVENT_TIMEWAIT_EXIT: continue;
			case RDMA_CM_EVENT_DISCONNECTED:
				if (ending) {
					Report report = attempt.report;
					report.ended = monotonic_now();
					attempts_.erase(report.number);
					return report;
				}
				[[fallthrough]];
			default: throw Failure(lib::trouble_of(*event, lib::format_address(server_.get())).text);
		}
	}
}

// ---- the passive end

RdmacmAcceptor::RdmacmAcceptor(const lib::SocketAddress& where)
	: channel_(take(lib::make_blocking_event_channel())), listener_(take(lib::listen(channel_.get(), where, backlog))) {
	struct sigaction nothing{};
	nothing.sa_handler = [](int) {};
	sigaction(wake_signal, &nothing, nullptr);
	server_ = std::thread([this] { serve(); });
}

// A signal that arrives just before the thread begins to wait is lost, so it is sent again until
// the thread has stopped.
RdmacmAcceptor::~RdmacmAcceptor() {
	std::unique_lock lock(mutex_);
	stopping_ = true;
	while (!stopped_) {
		pthread_kill(server_.native_handle(), wake_signal);
		changed_.wait_for(lock, 1ms);
	}
	lock.unlock();
	server_.join();
}

std::uint16_t RdmacmAcceptor::port() const { return ntohs(rdma_get_src_port(listener_.get())); }

Account RdmacmAcceptor::account(std::uint64_t established, std::uint64_t disconnected, Nanoseconds limit) {
	std::unique_lock lock(mutex_);
	changed_.wait_for(lock, std::chrono::nanoseconds(limit), [&] {
		return (account_.established >= established && account_.disconnected >= disconnected) || account_.failed != 0 ||
			stopped_;
	});
	return account_;
}

void RdmacmAcceptor::serve() {
	const auto go_on = [this] {
		const std::lock_guard lock(mutex_);
		return !stopping_;
	};
	while (go_on()) {
		auto event = lib::wait_for_event(channel_.get());
		std::string trouble;
		try {
			if (!event) trouble = event.error().text;
			else if (*event) handle(**event);
		} catch (const std::exception& failure) {
			trouble = failure.what();
		}
		if (trouble.empty()) continue;
		const std::lock_guard lock(mutex_);
		++account_.failed;
		account_.trouble = trouble;
		changed_.notify_all();
		if (!event) break;  // the channel is broken, so no event will follow
	}
	const std::lock_guard lock(mutex_);
	stopped_ = true;
	changed_.notify_all();
}

void RdmacmAcceptor::handle(const lib::ConnectionEvent& event) {
	const auto count = [this](std::uint64_t Account::* what) {
		const std::lock_guard lock(mutex_);
		++(account_.*what);
		changed_.notify_all();
	};
	switch (event.type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST: {
			End end{.id = lib::ConnectionId(event.id)};
			auto& shared = shared_[event.id->verbs];
			if (!shared) shared = Shared::on(event.id);
			end.make_queue_pair(*shared);
			take(lib::accept(event.id, {}));
			ends_.emplace(event.id, std::move(end));
			return;
		}
		case RDMA_CM_EVENT_ESTABLISHED: return count(&Account::established);
		case RDMA_CM_EVENT_DISCONNECTED: {
			const auto at = ends_.find(event.id);
			if (at == ends_.end()) return;
			rdma_disconnect(event.id);  // answers the other end
			ends_.erase(at);
			return count(&Account::disconnected);
		}
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_REJECTED: ends_.erase(event.id); throw Failure(lib::trouble_of(event, "the client").text);
		default: return;
	}
}

}  // namespace verbena::connect
