// SPDX-License-Identifier: Apache-2.0
// watch_etcd(): a server_watch over entries of etcd (load_balancer.h).
//
// Threads: changes are reported on the thread of discovery::Members.
#include <mutex>

#include "lib/discovery/members.h"
#include "lib/rpc/load_balancer.h"

namespace verbena::rpc {
namespace {

class EtcdWatch final : public server_watch {
public:
	static std::expected<std::unique_ptr<server_watch>, std::string> open(const discovery::EtcdPrefix& where) {
		auto watch = std::make_unique<EtcdWatch>();
		auto members = discovery::Members::watch(where, [of = watch.get()] { of->tell(); });
		if (!members) return std::unexpected(members.error());
		watch->members_ = std::move(*members);
		return std::unique_ptr<server_watch>(std::move(watch));
	}
	std::vector<server_address> servers() override {
		std::vector<server_address> servers;
		for (std::string& name : members_->list()) servers.push_back({.host = std::move(name)});
		return servers;
	}
	// Reports at once if the list has changed since it was first read.
	void notify(std::function<void()> changed) override {
		{
			const std::lock_guard guard(lock_);
			changed_ = std::move(changed);
		}
		if (members_->changed()) tell();
	}

private:
	// Members::watch() may report a change before notify(), when members_ is still null: changed_
	// is empty then, so that nothing uses members_.
	void tell() {
		const std::lock_guard guard(lock_);
		if (changed_) changed_();
	}
	std::mutex lock_;
	std::function<void()> changed_;
	// The last member: its thread calls `tell()`, and must end before the others are destroyed.
	std::unique_ptr<discovery::Members> members_;
};

}  // namespace

std::expected<std::unique_ptr<server_watch>, std::string> watch_etcd(std::string_view prefix) {
	const auto where = discovery::read_etcd(prefix, {}, discovery::etcd_environment());
	if (!where) return std::unexpected(where.error());
	return EtcdWatch::open(*where);
}

}  // namespace verbena::rpc
