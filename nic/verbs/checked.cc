// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/checked.h"

#include <time.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

#include "base/log.h"
#include "nic/engine/boundary.h"
#include "nic/engine/thread.h"
#include "nic/verbs/checked_advice.h"
#include "nic/verbs/checked_path.h"
#include "nic/verbs/checked_peers.h"
#include "nic/verbs/limits.h"
#include "nic/verbs/strict.h"

namespace verbena::verbs {
namespace {

std::atomic<rules::Findings*> findings = nullptr;

std::optional<rules::Severity> level_of_environment() {
	const char* const wanted = std::getenv("VERBENA_CHECK");
	if (!wanted || !*wanted) return std::nullopt;
	for (const auto severity : {rules::Severity::error, rules::Severity::portability, rules::Severity::advice})
		if (rules::name_of(severity) == wanted) return severity;
	log::error("VERBENA_CHECK is %s, which is none of error, portability and advice: nothing is checked", wanted);
	return std::nullopt;
}

void make_book(rules::Severity level) {
	const char* const file = std::getenv("VERBENA_CHECK_FILE");
	findings = new rules::Findings(level, file ? file : "");
	const rules::Book::Profile profile{.read_sink_needs_remote_write = device_limits().read_sink_needs_remote_write};
	detail::book.store(new rules::Book(*findings, profile), std::memory_order_release);
}

std::atomic<bool> watched = false;  // the thread of start_watch() runs

// Starts a thread that looks for waits without end.
void start_watch() {
	if (!checked() || watched.exchange(true)) return;
	auto watch = engine::Thread::start("verbena-check", [] {
		constexpr timespec pause{0, 250'000'000};
		for (;;) {
			nanosleep(&pause, nullptr);
			engine::attempt([] { checked()->look(monotonic_now()); });
			engine::attempt(compare_with_peers);
		}
	});
	if (watch) watch->forget();
	else log::warn("no thread for the checker: it does not see waits without end: %s", std::strerror(watch.error()));
}

void begin() {
	const auto level = level_of_environment();
	if (!level) return;
	be_strict();
	make_book(*level);
	see_advice();
}

}  // namespace

void begin_check() noexcept {
	static std::once_flag once;
	engine::attempt([] {
		std::call_once(once, begin);
		start_watch();
	});
}

void end_check() noexcept {
	if (rules::Book* const book = checked())
		engine::attempt([&] {
			book->finish();
			findings.load()->finish();
		});
}

namespace {

// As of the real library (ibv_fork_init(3)).
std::atomic<bool> fork_is_safe = std::getenv("RDMAV_FORK_SAFE") || std::getenv("IBV_FORK_SAFE");

}  // namespace

void note_fork_init() noexcept { fork_is_safe.store(true, std::memory_order_relaxed); }
void note_fork() noexcept {
	if (checked() && !fork_is_safe.load(std::memory_order_relaxed))
		engine::attempt([] { checked()->forks(site_here()); });
}

// The old book is lost, and so is what the child has inherited: it can only destroy that.
void renew_check_after_fork() noexcept {
	if (!checked()) return;
	watched = false;
	renew_turns_after_fork();
	engine::attempt([] {
		const bool asked = checked()->has_asked_device();
		make_book(level_of_environment().value_or(rules::Severity::error));
		if (asked) checked()->asked_device();
	});
}

void keep_ghost(std::shared_ptr<void> ghost) {
	constexpr std::size_t ghosts_max = 1024;
	static std::mutex& mutex = *new std::mutex;
	static std::deque<std::shared_ptr<void>>& ghosts = *new std::deque<std::shared_ptr<void>>;
	std::shared_ptr<void> oldest;
	const std::lock_guard lock(mutex);
	ghosts.push_back(std::move(ghost));
	if (ghosts.size() <= ghosts_max) return;
	oldest = std::move(ghosts.front());
	ghosts.pop_front();
}

rules::Site site_here() { return findings.load()->sites().here(); }
rules::Site site_of_return(const void* return_address, const void* frame) {
	return findings.load()->sites().of_return(
		reinterpret_cast<std::uintptr_t>(return_address), reinterpret_cast<std::uintptr_t>(frame));
}

}  // namespace verbena::verbs
