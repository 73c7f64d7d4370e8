// SPDX-License-Identifier: Apache-2.0
// A Selector by epoll: one system call for each wait, and one for each descriptor that is added or
// removed. The contract is that of Selector.
#pragma once

#include "lib/async/selector.h"

namespace verbena::async {

class EpollSelector final : public Selector {
public:
	EpollSelector();
	~EpollSelector() override;
	EpollSelector(const EpollSelector&) = delete;
	EpollSelector& operator=(const EpollSelector&) = delete;

	SelectorKind kind() const override { return SelectorKind::epoll; }
	void watch_changes(int fd, void* who) override;
	void watch_readable(int fd, void* who) override;
	void forget(int fd) override;
	std::size_t wait(std::span<Readiness> into, Nanoseconds patience) override;
	int descriptor() const override { return epoll_; }

private:
	void watch(int fd, std::uint32_t events, void* who);

	int epoll_;
};

}  // namespace verbena::async
