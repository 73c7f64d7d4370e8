// Selector: asks the kernel which of many descriptors are ready, for one loop. By epoll, or by io_uring, which learns
// of new descriptors and tells of ready ones through memory that it shares with the kernel, so that a look without news
// takes no system call.
//
// Of the loop's thread, or of another one before the loop runs or after it has ended.
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

// A hang-up and an error are readable and writable.
struct Readiness {
	void* who = nullptr;
	bool readable = false, writable = false;
};

class Selector {
public:
	virtual ~Selector() = default;
	virtual SelectorKind kind() const = 0;

	// Tells of both directions as they become ready (edge-triggered), for the first time about how they are now. `who`
	// comes back with it.
	virtual void watch_changes(int fd, void* who) = 0;
	// Tells each time as long as it can be read (level-triggered).
	virtual void watch_readable(int fd, void* who) = 0;
	// Before it is closed, or goes to another loop: nothing is told of it any more, and the kernel has let go of it.
	virtual void forget(int fd) = 0;

	// What is ready, at most so many; the rest comes next time. Waits for it up to `patience`, and sometimes less:
	// there may be nothing.
	virtual std::size_t wait(std::span<Readiness> into, Nanoseconds patience) = 0;
};

struct ChosenSelector {
	std::unique_ptr<Selector> selector;
	std::string refusal;  // why it is not the one that was asked for
};

// Where the kernel refuses io_uring, or has one that is too old, it is epoll.
ChosenSelector make_selector(SelectorKind wanted);

}  // namespace verbena::async
