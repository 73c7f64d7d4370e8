// SPDX-License-Identifier: Apache-2.0
// verbena kv info: prints what the servers of a key-value store are, hold and have counted.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "lib/kv/router.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/device_options.h"
#include "tools/etcd_options.h"
#include "tools/loopback_device.h"
#include "tools/server_words.h"
#include "tools/trust_options.h"

namespace verbena::tools {
namespace {

using Json = nlohmann::ordered_json;

struct InfoOptions {
	std::string servers, transport = "rdma", device;
	std::uint32_t timeout_ms = 10'000;
	bool json = false;
	channel::TrustOptions trust;
	discovery::EtcdAccess etcd;
};

// The lines "name: value" as an object. Values that are numbers in decimal are numbers there too.
Json object_of(const std::string& server, std::string_view text) {
	Json object{{"server", server}};
	while (!text.empty()) {
		const std::size_t end = std::min(text.find('\n'), text.size());
		const std::string_view line = text.substr(0, end);
		text.remove_prefix(std::min(end + 1, text.size()));
		const std::size_t colon = line.find(": ");
		if (colon == line.npos) continue;
		const std::string name(line.substr(0, colon)), value(line.substr(colon + 2));
		std::uint64_t number = 0;
		const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
		// The identity is a number in hexadecimal.
		const bool is_number = error == std::errc() && rest == value.data() + value.size() && name != "identity";
		object[name] = is_number ? Json(number) : Json(value);
	}
	return object;
}

// Asks all servers, one after the other. `answers` gets a text or an error for each.
async::Task<void> ask(kv::Router& router, const std::vector<std::string>& servers,
	std::vector<std::expected<std::string, kv::Error>>& answers) {
	for (const std::string& server : servers) {
		auto text = co_await router.info(server);
		if (text) answers.emplace_back(std::string(kv::text_of(text->bytes())));
		else answers.emplace_back(std::unexpected(text.error()));
	}
}

int run(const InfoOptions& options) {
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) return complain(trust.error(), usage);
	if (const std::string mistake = mistake_in_servers(options.servers); !mistake.empty())
		return complain(mistake, usage);
	auto protection = channel::make_client_protection(*trust);
	if (!protection) return complain(protection.error());
	auto session = kv::Session::open({.host = options.servers,
		.etcd = options.etcd,
		.port = kv::port_default,
		.protection = std::move(*protection),
		.device = options.device,
		.tcp = options.transport == "tcp",
		.settings = {.rx_depth = 16, .tx_depth = 16}});
	if (!session) return complain(session.error());
	kv::RouterOptions how;
	how.timeout = Nanoseconds{options.timeout_ms} * 1'000'000;
	const auto router = kv::Router::open_now(**session, {}, how);
	if (!router) return complain(router.error());
	const std::vector<std::string> servers = (*router)->servers();
	std::vector<std::expected<std::string, kv::Error>> answers;
	(*session)->loop().complete(ask(**router, servers, answers));

	Json all = Json::array();
	int code = good;
	for (std::size_t i = 0; i < servers.size(); ++i) {
		if (!answers[i]) code = complain(servers[i] + ": " + std::string(kv::sentence_of(answers[i].error())));
		else if (options.json) all.push_back(object_of(servers[i], *answers[i]));
		else fmt::print("{}server: {}\n{}", i == 0 ? "" : "\n", servers[i], *answers[i]);
	}
	if (options.json) fmt::print("{}\n", Json{{"servers", all}}.dump(2));
	(*router)->close();
	(*session)->loop().complete((*router)->until_closed());
	return code;
}

}  // namespace

void add_kv(CLI::App& app, Action& action) {
	CLI::App* const kv = add_command(app, "kv", "Look at a key-value store");
	kv->require_subcommand(1);
	kv->footer(
		"Examples:\n  verbena kv info 127.0.0.1\n  verbena kv info 10.0.0.1,10.0.0.2 --json\n"
		"The program kv_client sets, gets and watches keys. Among the events of a watch, look-again comes once at the\n"
		"start, and when events may have been missed: the keys must then be looked at (docs/kv.md, \"Events\").");
	CLI::App* const info = add_command(*kv, "info", "Print what each server is, holds and has counted");
	info->footer(
		"Examples:\n  verbena kv info 127.0.0.1\n  verbena kv info 10.0.0.1,10.0.0.2 --json\n"
		"docs/metrics.md explains most of the lines, docs/kv.md those of a cluster (\"Several servers\").");
	auto options = std::make_shared<InfoOptions>();
	info->add_option("server", options->servers,
			"HOST[:PORT] of a kv_server, a comma-separated list of servers, or etcd://HOST:2379/PREFIX "
			"(etcds:// with TLS)")
		->required();
	info->add_flag("--json", options->json, "Print JSON");
	info->add_option("--transport", options->transport, "Transport of the messages")
		->capture_default_str()
		->check(CLI::IsMember({"rdma", "tcp"}));
	info->add_option("--timeout-ms", options->timeout_ms, "Milliseconds after which a server without an answer fails")
		->capture_default_str()
		->check(CLI::Range(1u, 86'400'000u));
	add_device_option(*info, options->device);
	add_trust(*info, options->trust);
	add_etcd(*info, options->etcd);
	info->callback([options, &action] {
		action = [options]() -> int {
			list_loopback_device();
			return run(*options);
		};
	});
}

}  // namespace verbena::tools
