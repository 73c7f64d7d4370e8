#include "lib/kv/shards.h"

#include <algorithm>
#include <iterator>

#include "lib/kv/placement.h"

namespace verbena::kv {
namespace {

using async::Task;

// An unreachable member is tried again after a pause of ten times as long as the last try took,
// between retry_interval and pause_max. A member that does not answer delays operations on all
// others while settle() waits for it; the short patience and the long pause leave the others 90 %
// of the time.
constexpr Nanoseconds retry_interval = 200'000'000, retry_patience = 1'000'000'000;
constexpr Nanoseconds pause_of_a_try = 10, pause_max = pause_of_a_try * retry_patience;

}  // namespace

Task<std::expected<std::unique_ptr<Shards>, std::string>> Shards::open(Session& session, ClientOptions options) {
	std::unique_ptr<Shards> shards(new Shards(session, options));
	if (session.members() == nullptr) {
		auto names = session.servers();
		auto taking = shards->take(std::move(names), session.options().patience);
		auto all = co_await std::move(taking);
		if (!all) co_return std::unexpected(all.error());
		co_return shards;
	}
	auto settling = shards->settle(session.options().patience);
	co_await std::move(settling);
	if (shards->names_.empty()) co_return std::unexpected("no server is a member of " + session.options().host);
	if (std::ranges::none_of(shards->clients_, [](const auto& client) { return client != nullptr; }))
		co_return std::unexpected(shards->unreachable_reason_);
	co_return shards;
}

// Connects to the servers that have no client yet, all at once, and then replaces the list at one
// instant. Servers of both lists keep their clients.
Task<std::expected<void, std::string>> Shards::take(std::vector<std::string> names, Nanoseconds patience) {
	fresh_.clear();
	fresh_.resize(names.size());
	connect_error_.clear();
	for (std::size_t i = 0; i < names.size(); ++i)
		if (Client* const present = client_of(names[i]); present == nullptr || present->lost())
			connect(i, names[i], patience);
	while (connecting_ > 0) co_await async::Park(waiting_);
	for (std::size_t i = 0; i < names.size(); ++i)
		for (std::size_t j = 0; j < names_.size() && !fresh_[i]; ++j)
			if (names_[j] == names[i] && clients_[j] && !clients_[j]->lost()) fresh_[i] = std::move(clients_[j]);
	for (auto& client : clients_)
		if (client) departed_.push_back(std::move(client));
	names_ = std::move(names);
	clients_ = std::move(fresh_);
	if (names_.empty()) unreachable_reason_ = "no server is a member of " + session_.options().host + " any more";
	if (connect_error_.empty()) co_return std::expected<void, std::string>();
	unreachable_reason_ = connect_error_;
	co_return std::unexpected(connect_error_);
}

Running Shards::connect(std::size_t index, std::string name, Nanoseconds patience) {
	++connecting_;
	auto connecting = session_.connect(options_, std::move(name), patience);
	auto opened = co_await std::move(connecting);
	if (opened) fresh_[index] = std::move(*opened);
	else connect_error_ = std::move(opened.error());
	--connecting_;
	session_.loop().resume_soon(waiting_);
}

// Closes clients whose servers have left and that have no operation under way, and destroys those
// that are closed.
Task<void> Shards::retire_departed() {
	// Lets a coroutine that was spawned for such a client before its server left begin its
	// operation.
	co_await async::NextTurn(session_.loop());
	for (const auto& client : departed_)
		if (client->under_way() == 0) client->close();
	const auto over = std::ranges::partition(
		departed_, [](const auto& client) { return client->under_way() > 0 || !client->channel().closed(); });
	const std::vector<std::unique_ptr<Client>> gone(
		std::make_move_iterator(over.begin()), std::make_move_iterator(over.end()));
	departed_.erase(over.begin(), over.end());
	for (const auto& client : gone) retired_counters_ += client->counters();
	// Callers that wait for a client's last operation resume before `gone` destroys it.
	if (!gone.empty()) co_await async::NextTurn(session_.loop());
}

Client* Shards::client_of(std::string_view name) const {
	const auto found = std::ranges::find(names_, name);
	return found == names_.end() ? nullptr : clients_[static_cast<std::size_t>(found - names_.begin())].get();
}

Client* Shards::at(std::string_view key) {
	if (clients_.size() == 1) return clients_.front().get();
	return names_.empty() ? nullptr : clients_[owner_of(names_, key)].get();
}

bool Shards::changed() const { return !departed_.empty() || behind(); }

bool Shards::behind() const {
	const discovery::Members* const members = session_.members();
	if (members == nullptr) return false;
	if (members->changed()) return true;
	const auto is_broken = [](const auto& client) { return !client || client->lost(); };
	return std::ranges::any_of(clients_, is_broken) && monotonic_now() >= retry_;
}

Task<void> Shards::settle() { return settle(retry_patience); }

Task<void> Shards::settle(Nanoseconds patience) {
	if (!departed_.empty()) co_await retire_departed();
	if (settling_ || !behind()) co_return;
	settling_ = true;
	do {
		const Nanoseconds begin = monotonic_now();
		auto names = session_.members()->list();
		auto taking = take(std::move(names), patience);
		(void)co_await std::move(taking);
		const Nanoseconds end = monotonic_now();
		retry_ = end + std::clamp((end - begin) * pause_of_a_try, retry_interval, pause_max);
	} while (session_.members()->changed());
	settling_ = false;
}

void Shards::close() {
	for (const auto* clients : {&clients_, &departed_})
		for (const auto& client : *clients)
			if (client) client->close();
}

Task<void> Shards::until_closed() {
	for (const auto* clients : {&clients_, &departed_})
		for (const auto& client : *clients)
			if (client) co_await client->channel().until_closed();
}

ClientCounters Shards::counters() const {
	ClientCounters sum = retired_counters_;
	for (const auto* clients : {&clients_, &departed_})
		for (const auto& client : *clients)
			if (client) sum += client->counters();
	return sum;
}

}  // namespace verbena::kv
