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
	// What changed between the first list and this call is told now.
	void notify(std::function<void()> changed) override {
		{
			const std::lock_guard guard(lock_);
			changed_ = std::move(changed);
		}
		if (members_->changed()) tell();
	}

private:
	// Not before notify(), which `members_` is set for.
	void tell() {
		const std::lock_guard guard(lock_);
		if (changed_) changed_();
	}
	std::mutex lock_;
	std::function<void()> changed_;
	std::unique_ptr<discovery::Members> members_;  // ends first, with the thread that tells
};

}  // namespace

std::expected<std::unique_ptr<server_watch>, std::string> watch_etcd(std::string_view prefix) {
	const auto where = discovery::read_etcd(prefix);
	if (!where) return std::unexpected(where.error());
	return EtcdWatch::open(*where);
}

}  // namespace verbena::rpc
