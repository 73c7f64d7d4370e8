// SPDX-License-Identifier: Apache-2.0
// Selector: asks the kernel which descriptors of one loop are ready. EpollSelector uses epoll;
// UringSelector uses io_uring, which shares memory with the kernel, so that looking without news
// takes no system call (docs/decisions/0018).
//
// Threads: used on the loop's thread only. Another thread may prepare it before the loop runs, and
//   destroy it after the loop has ended.
// Owns: its kernel object; not the descriptors.
// Lifetime: forget() a descriptor before it is closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"

namespace verbena::async {

enum class SelectorKind : std::uint8_t { epoll, uring };
inline std::string_view name_of(SelectorKind kind) { return kind == SelectorKind::epoll ? "epoll" : "uring"; }

// A ready descriptor. A hang-up and an error count as readable and as writable.
struct Readiness {
	// The value that was given to watch_changes() or watch_readable().
	void* who = nullptr;
	bool readable = false, writable = false;
};

class Selector {
public:
	virtual ~Selector() = default;
	virtual SelectorKind kind() const = 0;

	// Reports the current state of both directions once, and then each change to ready
	// (edge-triggered). Each report carries `who`.
	virtual void watch_changes(int fd, void* who) = 0;
	// Reports the descriptor in every wait() while it is readable (level-triggered).
	virtual void watch_readable(int fd, void* who) = 0;
	// Stops watching `fd`: no later wait() reports it, also not what is pending, and the kernel
	// holds no reference to its file. Call it before closing `fd` or moving it to another loop.
	virtual void forget(int fd) = 0;

	// Fills `into` with ready descriptors and returns their number; the next call reports those
	// that did not fit. Waits for the first up to `patience`, and may return 0 earlier.
	virtual std::size_t wait(std::span<Readiness> into, Nanoseconds patience) = 0;

	// A descriptor that poll() and epoll report as readable while wait() has news; -1: this kind
	// has none.
	virtual int descriptor() const { return -1; }
};

struct ChosenSelector {
	std::unique_ptr<Selector> selector;
	std::string refusal;  // why `selector` is not of the kind that was asked for; else empty
};

// Makes a selector of the kind asked for, or one by epoll if the kernel refuses io_uring or has one
// that is too old.
ChosenSelector make_selector(SelectorKind wanted);

}  // namespace verbena::async
