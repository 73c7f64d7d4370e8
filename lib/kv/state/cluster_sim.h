// SPDX-License-Identifier: Apache-2.0
// For tests of Ownership: a cluster of servers, an etcd and clients in virtual time, and the judge
// of what the clients see. A run is its seed.
//
// Servers join, leave, are killed, are stopped and go on, and start again under their old names.
// Messages to etcd and between clients and servers are late or lost. Etcd is away for a while. Its
// entries are deleted by hand. The clocks of the servers have different rates. Clients hear of the
// members at different times, some of them very late.
//
// The judge: no GET returns an older value than one that was acknowledged before the GET began, and
// no two servers are the owner of a slot at one time. A GET may always find no value.
#pragma once

#include <algorithm>
#include <compare>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "lib/kv/state/ownership.h"

namespace verbena::kv::testing_tools {

// A mistake in the wiring of Ownership, for proof that the judge notices it.
enum class Plant : std::uint8_t {
	none,
	no_wait,            // a new owner does not wait until other rights have ended
	right_from_answer,  // the right counts from etcd's answer, not from before the request
	right_without_end,  // the right is not checked
	nothing_dropped,    // items of lost slots stay
	dropped_too_late,   // the items are reported as dropped before they are
	name_compared,      // the server takes an entry of its name for its own
	old_time,           // a request is judged by the time of its arrival, not of its execution
	content_kept,       // a server that starts again has what it had
	fast_clocks,        // some clocks run at twice the rate of others
};

class ClusterSim {
public:
	static constexpr Nanoseconds lease = 1000 * ms;
	static constexpr std::size_t keys = 12;  // each in a slot of its own: number * 80

	struct Result {
		std::string violation;  // empty: there was none
		std::uint64_t gets = 0, hits = 0, sets = 0, lapses = 0, moves = 0;
	};

	explicit ClusterSim(std::uint64_t seed, Plant plant = Plant::none) : random_(seed), plant_(plant) {}

	Result run(Nanoseconds duration = 60'000 * ms) {
		for (int i = 0; i < 3; ++i) start("s" + std::to_string(i), {});
		for (int i = 0; i < 4; ++i) {
			clients_.push_back(std::make_unique<Client>());
			clients_.back()->lag = i == 3 ? 8000 * ms : 300 * ms;
			after(random_.below(100 * ms), [this, client = clients_.back().get()] { hear(*client); });
			after(random_.below(500 * ms), [this, client = clients_.back().get()] { begin(*client); });
		}
		after(between(500, 3000), [this] { disturb(); });
		while (!events_.empty() && events_.begin()->first.at < duration && result_.violation.empty()) {
			const auto event = events_.extract(events_.begin());
			now_ = event.key().at;
			event.mapped()();
		}
		for (const auto& server : servers_) result_.lapses += server->ownership.lapses();
		return result_;
	}

private:
	struct Turn {
		Nanoseconds at;
		std::uint64_t order;  // among the events of one moment
		auto operator<=>(const Turn&) const = default;
	};
	struct Entry {
		std::uint64_t lease = 0;
	};
	// The values of keys, as the number of the SET in the order of execution.
	using Content = std::map<std::size_t, std::uint64_t>;
	struct Server {
		explicit Server(std::string name) : name(std::move(name)) {}
		std::string name;
		Ownership ownership{lease};
		Content content;
		std::uint64_t lease_number = 0;
		bool alive = true, joined = true;
		Nanoseconds stopped_until = 0;
		double rate = 1;
		Nanoseconds ahead = 0;
	};
	struct Client {
		std::vector<std::string> members;
		Nanoseconds lag = 0;
	};
	struct Operation {
		Client* client = nullptr;
		bool sets = false;
		std::size_t key = 0;
		std::uint64_t floor = 0;  // the newest SET of the key that was acknowledged at the begin
		int attempts = 0;
	};
	using ServerPointer = std::shared_ptr<Server>;

	Nanoseconds between(std::uint64_t from_ms, std::uint64_t to_ms) {
		return (from_ms * ms) + random_.below((to_ms - from_ms) * ms);
	}
	void after(Nanoseconds delay, std::function<void()> work) {
		events_.emplace(Turn{now_ + delay, ++order_}, std::move(work));
	}
	// Does the work at this server, when it is not stopped, unless it has died.
	void at(const ServerPointer& server, Nanoseconds delay, std::function<void()> work) {
		after(delay, [this, server, work = std::move(work)] {
			if (!server->alive) return;
			// When it goes on, work that has waited is done in any order.
			if (server->stopped_until > now_) return at(server, server->stopped_until - now_ + random_.below(ms), work);
			work();
		});
	}
	Nanoseconds clock(const Server& server) const {
		return server.ahead + static_cast<Nanoseconds>(static_cast<double>(now_) * server.rate);
	}
	static std::size_t slot_of(std::size_t key) { return key * 80; }
	// Rendezvous hashing of the names.
	template <class Names> static std::string owner_of(const Names& names, std::size_t slot) {
		std::string best;
		std::uint64_t best_score = 0;
		for (const std::string& name : names) {
			std::uint64_t state = std::hash<std::string>()(name) ^ slot * 0x9e3779b97f4a7c15;
			const std::uint64_t score = split_mix(state);
			if (best.empty() || score > best_score) best = name;
			best_score = std::max(best_score, score);
		}
		return best;
	}
	void fail(std::string what) {
		if (result_.violation.empty()) result_.violation = std::to_string(now_ / ms) + " ms: " + std::move(what);
	}

	// Etcd.
	Nanoseconds delay() { return random_.chance(0.05) ? between(200, 2500) : between(0, 60); }
	bool lost() { return now_ < away_until_ || random_.chance(0.05); }
	void expire_leases() {
		for (auto each = entries_.begin(); each != entries_.end();)
			each = leases_[each->second.lease] <= now_ ? entries_.erase(each) : std::next(each);
	}
	std::vector<std::string> names() {
		expire_leases();
		std::vector<std::string> all;
		for (const auto& [name, entry] : entries_) all.push_back(name);
		return all;
	}
	bool renew(std::uint64_t number) {
		const auto found = leases_.find(number);
		if (found == leases_.end() || found->second <= now_) return false;
		found->second = now_ + lease;
		return true;
	}

	// Servers.
	void start(std::string name, Content content) {
		auto server = std::make_shared<Server>(std::move(name));
		server->content = std::move(content);
		server->rate = 0.9995 + static_cast<double>(random_.below(1000)) * 1e-6;
		if (plant_ == Plant::fast_clocks && random_.chance(0.5)) server->rate /= 2;
		server->ahead = random_.below(1'000'000 * ms);
		servers_.push_back(server);
		enter(server);
		tick(server);
	}
	void tick(const ServerPointer& server) {
		drop(server);
		server->ownership.handle_time(clock(*server));
		at(server, 10 * ms, [this, server] { tick(server); });
	}
	// Overwrites an entry of the same name, as a server that starts does.
	void enter(const ServerPointer& server) {
		after(delay(), [this, server] {
			if (!server->alive || !server->joined) return;
			if (lost()) return at(server, lease / 3, [this, server] { enter(server); });
			server->lease_number = ++last_lease_;
			leases_[server->lease_number] = now_ + lease;
			entries_[server->name] = {server->lease_number};
			at(server, delay(), [this, server] { look(server); });
		});
	}
	void look(const ServerPointer& server) {
		if (!server->joined) return;
		const Nanoseconds asked = clock(*server);
		at(server, lease / 3, [this, server] { look(server); });
		if (lost()) return;
		after(delay(), [this, server, asked] {
			const bool renewed = renew(server->lease_number);
			after(delay() / 2, [this, server, asked, renewed] {
				const std::vector<std::string> seen = names();
				const auto entry = entries_.find(server->name);
				const bool there = entry != entries_.end();
				const bool own =
					there && (plant_ == Plant::name_compared || entry->second.lease == server->lease_number);
				if (server->joined && server->alive && !there) {
					if (!renewed) leases_[server->lease_number = ++last_lease_] = now_ + lease;
					entries_[server->name] = {server->lease_number};
				}
				if (lost() || (!renewed && plant_ != Plant::name_compared)) return;
				at(server, delay(), [this, server, asked, seen, own] { saw(server, asked, seen, own); });
			});
		});
	}
	void saw(const ServerPointer& server, Nanoseconds asked, const std::vector<std::string>& seen, bool own) {
		Ownership::Look look{.assigned = {}, .asked = asked, .wait = plant_ == Plant::no_wait ? 0 : lease};
		if (plant_ == Plant::right_from_answer) look.asked = clock(*server);
		if (own)
			for (std::size_t slot = 0; slot < slot_count; slot += 80)
				look.assigned[slot] = owner_of(seen, slot) == server->name;
		const std::uint64_t before = server->ownership.sweep();
		server->ownership.handle_look(look, clock(*server));
		result_.moves += server->ownership.sweep() - before;
	}
	// The sweep takes several ticks.
	void drop(const ServerPointer& server) {
		if (!server->ownership.sweeping()) return;
		const std::uint64_t number = server->ownership.sweep();
		const auto drop_items = [server] {
			std::erase_if(
				server->content, [&](const auto& item) { return !server->ownership.keeps(slot_of(item.first)); });
		};
		if (plant_ == Plant::nothing_dropped) return server->ownership.swept(number);
		if (plant_ == Plant::dropped_too_late) {
			server->ownership.swept(number);
			return at(server, 4000 * ms, drop_items);
		}
		at(server, between(0, 300), [server, number, drop_items] {
			drop_items();
			server->ownership.swept(number);
		});
	}

	// Clients.
	void hear(Client& client) {
		after(random_.below(client.lag), [this, &client, seen = names()] { client.members = seen; });
		after(client.lag / 4, [this, &client] { hear(client); });
	}
	void begin(Client& client) {
		after(between(1, 20), [this, &client] { begin(client); });
		Operation operation{.client = &client, .sets = random_.chance(0.4), .key = random_.below(keys)};
		operation.floor = acknowledged_[operation.key];
		send(operation);
	}
	void send(Operation operation) {
		const std::string name = owner_of(operation.client->members, slot_of(operation.key));
		// A server that was stopped may have a successor of its name.
		std::vector<ServerPointer> found;
		std::ranges::copy_if(
			servers_, std::back_inserter(found), [&](const auto& each) { return each->alive && each->name == name; });
		if (found.empty()) return retry(operation);
		const ServerPointer server = found[random_.below(found.size())];
		const Nanoseconds delay = random_.chance(0.02) ? between(100, 3000) : between(0, 5);
		after(delay, [this, server, operation] {
			const Nanoseconds arrived = clock(*server);
			at(server, 0, [this, server, operation, arrived] { execute(server, operation, arrived); });
		});
	}
	void retry(Operation operation) {
		if (++operation.attempts < 100) after(between(10, 30), [this, operation] { send(operation); });
	}
	void execute(const ServerPointer& server, const Operation& operation, Nanoseconds arrived) {
		const Nanoseconds now = plant_ == Plant::old_time ? arrived
			: plant_ == Plant::right_without_end          ? 0
														  : clock(*server);
		const std::size_t slot = slot_of(operation.key);
		const Standing standing = server->ownership.standing(slot, now);
		if (standing == Standing::other || (standing == Standing::waiting && operation.sets)) return retry(operation);
		if (standing == Standing::owner) judge_owner(server, slot, now);
		if (operation.sets) {
			const std::uint64_t number = server->content[operation.key] = ++last_set_;
			++result_.sets;
			if (random_.chance(0.05)) return;  // the answer is lost
			after(between(0, 5), [this, operation, number] {
				acknowledged_[operation.key] = std::max(acknowledged_[operation.key], number);
			});
			return;
		}
		++result_.gets;
		const auto value = server->content.find(operation.key);
		if (standing != Standing::owner || value == server->content.end()) return;
		++result_.hits;
		if (value->second < operation.floor)
			fail(server->name + " answers a GET of key " + std::to_string(operation.key) + " with SET " +
				std::to_string(value->second) + ", after SET " + std::to_string(operation.floor) + " was acknowledged");
	}
	void judge_owner(const ServerPointer& server, std::size_t slot, Nanoseconds now) {
		if (plant_ == Plant::right_without_end || now != clock(*server)) return;
		for (const auto& other : servers_)
			if (other != server && other->alive && other->ownership.standing(slot, clock(*other)) == Standing::owner)
				fail("slot " + std::to_string(slot) + " has two owners, " + server->name + " and " + other->name);
	}

	// Faults.
	void disturb() {
		after(between(300, 4000), [this] { disturb(); });
		std::vector<ServerPointer> alive;
		for (const auto& each : servers_)
			if (each->alive && each->joined) alive.push_back(each);
		if (alive.size() < 2) return start("s" + std::to_string(random_.below(5)), {});
		const ServerPointer victim = alive[random_.below(alive.size())];
		switch (random_.below(7)) {
			case 0: return start("s" + std::to_string(random_.below(5)), {});
			case 1: return leave(victim);
			case 2: {  // is killed, and perhaps starts again soon
				victim->alive = false;
				if (random_.chance(0.3)) return;
				const Content left = plant_ == Plant::content_kept ? victim->content : Content();
				return after(between(10, 3000), [this, name = victim->name, left] { start(name, left); });
			}
			case 3: away_until_ = now_ + between(100, 3000); return;
			case 4: entries_.erase(victim->name); return;
			default: victim->stopped_until = now_ + between(50, 4000); return;
		}
	}
	// The server goes on answering for a while after its entry is gone.
	void leave(const ServerPointer& server) {
		server->joined = false;
		if (!lost())
			after(delay(), [this, server] {
				const auto entry = entries_.find(server->name);
				if (entry != entries_.end() && entry->second.lease == server->lease_number) entries_.erase(entry);
			});
		after(between(0, 1500), [server] { server->alive = false; });
	}

	Random random_;
	Plant plant_;
	Nanoseconds now_ = 0, away_until_ = 0;
	std::uint64_t order_ = 0;
	std::map<Turn, std::function<void()>> events_;
	std::map<std::string, Entry> entries_;
	std::map<std::uint64_t, Nanoseconds> leases_;  // when each ends
	std::uint64_t last_lease_ = 0, last_set_ = 0;
	std::vector<ServerPointer> servers_;
	std::vector<std::unique_ptr<Client>> clients_;
	std::map<std::size_t, std::uint64_t> acknowledged_;
	Result result_;
};

}  // namespace verbena::kv::testing_tools
