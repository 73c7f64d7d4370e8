#include "lib/kv/shards.h"

#include <algorithm>

#include "lib/kv/placement.h"

namespace verbena::kv {
namespace {

using async::Task;

// How often a member that is not reached is tried again.
constexpr Nanoseconds retry_interval = 200'000'000;

}  // namespace

Task<std::expected<std::unique_ptr<Shards>, std::string>> Shards::open(Session& session, ClientOptions options) {
	std::unique_ptr<Shards> shards(new Shards(session, options));
	if (session.members() == nullptr) {
		auto names = session.servers();
		auto taking = shards->take(std::move(names));
		auto all = co_await std::move(taking);
		if (!all) co_return std::unexpected(all.error());
		co_return shards;
	}
	co_await shards->settle();
	if (shards->names_.empty()) co_return std::unexpected("no server is a member of " + session.options().host);
	if (std::ranges::none_of(shards->clients_, [](const auto& client) { return client != nullptr; }))
		co_return std::unexpected(shards->why_none_);
	co_return shards;
}

// Those that are members already keep their client; the others change at one instant, when all that can be reached are.
Task<std::expected<void, std::string>> Shards::take(std::vector<std::string> names) {
	std::erase_if(left_, [](const auto& client) { return client->under_way() == 0; });
	std::expected<void, std::string> all;
	std::vector<std::unique_ptr<Client>> fresh(names.size());
	for (std::size_t i = 0; i < names.size(); ++i) {
		if (Client* const present = client_of(names[i]); present != nullptr && !present->lost()) continue;
		auto connecting = session_.connect(options_, names[i]);
		auto opened = co_await std::move(connecting);
		if (opened) {
			fresh[i] = std::move(*opened);
		} else {
			why_none_ = opened.error();
			all = std::unexpected(std::move(opened.error()));
		}
	}
	for (std::size_t i = 0; i < names.size(); ++i)
		for (std::size_t j = 0; j < names_.size() && !fresh[i]; ++j)
			if (names_[j] == names[i] && clients_[j] && !clients_[j]->lost()) fresh[i] = std::move(clients_[j]);
	for (auto& client : clients_) {
		if (!client) continue;
		client->close();
		left_.push_back(std::move(client));
	}
	names_ = std::move(names);
	clients_ = std::move(fresh);
	if (names_.empty()) why_none_ = "there is no server any more in " + session_.options().host;
	co_return all;
}

Client* Shards::client_of(std::string_view name) const {
	const auto found = std::ranges::find(names_, name);
	return found == names_.end() ? nullptr : clients_[static_cast<std::size_t>(found - names_.begin())].get();
}

Client* Shards::at(std::string_view key) {
	if (clients_.size() == 1) return clients_.front().get();
	return names_.empty() ? nullptr : clients_[owner_of(names_, key)].get();
}

bool Shards::changed() const {
	const discovery::Members* const members = session_.members();
	if (members == nullptr) return false;
	if (members->changed()) return true;
	const auto is_broken = [](const auto& client) { return !client || client->lost(); };
	return std::ranges::any_of(clients_, is_broken) && monotonic_now() >= retry_;
}

Task<void> Shards::settle() {
	if (settling_) co_return;
	settling_ = true;
	while (changed()) {
		retry_ = monotonic_now() + retry_interval;
		auto names = session_.members()->list();
		auto taking = take(std::move(names));
		(void)co_await std::move(taking);
	}
	settling_ = false;
}

void Shards::close() {
	for (const auto& client : clients_)
		if (client) client->close();
}

Task<void> Shards::until_closed() {
	for (const auto& client : clients_)
		if (client) co_await client->channel().until_closed();
}

ClientCounters Shards::counters() const {
	ClientCounters sum;
	for (const auto* clients : {&clients_, &left_})
		for (const auto& client : *clients)
			if (client) sum += client->counters();
	return sum;
}

}  // namespace verbena::kv
