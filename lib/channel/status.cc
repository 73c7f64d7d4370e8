// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/status.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/line_words.h"

namespace verbena::channel {
namespace {

constexpr std::string_view head = "verbena channels 1\n";

std::optional<ChannelStatus> channel_in(LineWords words) {
	ChannelStatus channel;
	words.into(channel.qpn);
	words.into(channel.peer_qpn);
	words.into(channel.waits);
	words.into(channel.waits_ms);
	words.into(channel.credits);
	words.into(channel.granted);
	words.into(channel.sends);
	words.into(channel.bytes);
	words.into(channel.offers);
	words.into(channel.offered_bytes);
	words.into(channel.held);
	channel.peer = printable(words.rest());
	return words.good() ? std::optional(std::move(channel)) : std::nullopt;
}

// A process that was killed, whose door another one has inherited, leaves nothing to show.
bool has_ended(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

}  // namespace

std::string render(const TransportStatus& transport) {
	std::string out(head);
	const auto add = [&](auto value) { out += std::to_string(value) + ' '; };
	out += "transport ";
	add(transport.pid);
	add(transport.uid);
	add(transport.channels_open);
	add(transport.credits_free);
	out += printable(transport.device) + ' ' + printable(transport.program) + '\n';
	for (const ChannelStatus& channel : transport.channels) {
		out += "channel ";
		add(channel.qpn);
		add(channel.peer_qpn);
		out += channel.waits + ' ';
		add(channel.waits_ms);
		add(channel.credits);
		add(channel.granted);
		add(channel.sends);
		add(channel.bytes);
		add(channel.offers);
		add(channel.offered_bytes);
		add(channel.held);
		out += printable(channel.peer) + '\n';
	}
	return out;
}

std::optional<TransportStatus> parse_status(std::string_view text) {
	if (!text.starts_with(head)) return std::nullopt;
	text.remove_prefix(head.size());
	std::optional<TransportStatus> transport;
	while (!text.empty()) {
		LineWords words(take_line(text));
		const std::string_view kind = words.word();
		if (kind == "transport") {
			transport.emplace();
			words.into(transport->pid);
			words.into(transport->uid);
			words.into(transport->channels_open);
			words.into(transport->credits_free);
			words.into(transport->device);
			transport->program = printable(words.rest());
			if (!words.good()) return std::nullopt;
		} else if (!transport) {
			return std::nullopt;
		} else if (kind == "channel") {
			if (auto channel = channel_in(words)) transport->channels.push_back(*std::move(channel));
		}
	}
	return transport;
}

TransportsSeen transports_in(std::span<const door::Found> doors, std::span<const door::Answer> answers) {
	TransportsSeen seen;
	for (std::size_t i = 0; i < doors.size(); ++i) {
		if (doors[i].kind() != status_door_kind) continue;
		const door::Answer& answer = answers[i];
		if (answer.text) {
			auto transport = parse_status(*answer.text);
			if (transport && transport->uid == doors[i].user()) seen.transports.push_back(*std::move(transport));
		} else if (answer.text.error() == ETIMEDOUT && answer.pid > 0 && !has_ended(answer.pid)) {
			seen.silent.push_back({static_cast<std::uint32_t>(answer.pid), doors[i].user().value_or(0)});
		}
	}
	std::ranges::stable_sort(seen.transports, {}, &TransportStatus::pid);
	std::ranges::sort(seen.silent, {}, &SilentProcess::pid);
	return seen;
}

}  // namespace verbena::channel
