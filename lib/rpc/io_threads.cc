// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/io_threads.h"

#include <openssl/crypto.h>

#include <algorithm>

namespace verbena::rpc {
namespace {

thread_local IoThread* current_thread = nullptr;

async::Task<void> nothing() { co_return; }

}  // namespace

IoThread* IoThread::current() { return current_thread; }

IoThread::IoThread(const async::LoopOptions& options)
	: loop_(options), thread_([this] {
		  current_thread = this;
		  loop_.run();
	  }) {}

IoThread::~IoThread() {
	check(!here(), "an I/O thread must be destroyed by another thread");
	wait_until_none_away();
	loop_.stop();
	thread_.join();
	IoThread* const before = std::exchange(current_thread, this);
	// Run work that was posted after the loop stopped, because it may own objects that must be
	// destroyed on this thread; destroying coroutines may post more.
	loop_.complete(nothing());
	loop_.abandon_spawned();
	loop_.complete(nothing());
	transports_.clear();
	current_thread = before;
}

std::expected<channel::RcTransport*, std::string> IoThread::transport(
	const lib::DeviceRequest& wish, const channel::RcOptions& options) {
	check(here(), "a transport must be opened on its own thread");
	const auto known = std::ranges::find_if(transports_, [&](const Opened& each) {
		return each.wish.device == wish.device && each.wish.gid_index == wish.gid_index &&
			channel::describe(each.options) == channel::describe(options);
	});
	if (known != transports_.end()) return known->transport.get();
	auto opened = channel::RcTransport::open(loop_, wish, options);
	if (!opened) return std::unexpected(opened.error());
	transports_.push_back({.wish = wish, .options = options, .transport = std::move(*opened)});
	return transports_.back().transport.get();
}

RdmaUse& RdmaUse::operator+=(const RdmaUse& other) {
	pinned_bytes += other.pinned_bytes;
	frames += other.frames;
	frames_inline += other.frames_inline;
	registrations += other.registrations;
	refused += other.refused;
	parts_most = std::max(parts_most, other.parts_most);
	return *this;
}

RdmaUse IoThread::rdma() const {
	RdmaUse all;
	for (const Opened& each : transports_) {
		channel::RcTransport& transport = *each.transport;
		const channel::RcCounters& sent = transport.counters();
		const channel::MemoryCounters& memory = transport.memory().counters();
		all += {.pinned_bytes = transport.pinned_bytes(),
			.frames = sent.frames_sent,
			.frames_inline = sent.frames_inline,
			.registrations = memory.registrations,
			.refused = memory.refused,
			.parts_most = sent.offers_most};
	}
	return all;
}

IoThreads::IoThreads(std::size_t count, const async::LoopOptions& options)
	: options_(options), threads_(std::max<std::size_t>(count, 1)) {}

IoThreads::~IoThreads() {
	for (const auto& each : threads_)
		if (each != nullptr) each->wait_until_none_away();
}

IoThread& IoThreads::at(std::size_t index) {
	const std::lock_guard guard(lock_);
	auto& thread = threads_[index];
	if (thread == nullptr) thread = std::make_unique<IoThread>(options_);
	return *thread;
}

IoThread& IoThreads::next() {
	std::size_t index = 0;
	{
		const std::lock_guard guard(lock_);
		index = next_++ % threads_.size();
	}
	return at(index);
}

IoThreads& IoThreads::of_process() {
	// The threads use OpenSSL, so it is initialized before them and therefore cleaned up after
	// them. It is initialized only if an option is given.
	[[maybe_unused]] static const int first = OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr);
	static IoThreads threads(std::thread::hardware_concurrency());
	return threads;
}

}  // namespace verbena::rpc
