#include "bench/scale/outcome.h"

namespace verbena::scale {

namespace {

double per_connection_kib(std::uint64_t now, std::uint64_t before, std::uint64_t connections) {
	return now > before && connections > 0 ? static_cast<double>(now - before) / 1024 / static_cast<double>(connections)
										   : 0;
}

}  // namespace

double Outcome::messages_per_s() const {
	if (!timed()) return messages_s > 0 ? static_cast<double>(echoes) / messages_s : 0;
	if (window_s() <= 0) return 0;
	// A server on another host does not report its count, so use the clients' count.
	return static_cast<double>(server ? to.echoed - from.echoed : latency.count()) / window_s();
}

std::optional<double> Outcome::server_kib_per_connection() const {
	if (!server) return {};
	return per_connection_kib(server->connected.resident_bytes, server->before.resident_bytes, connected);
}

std::optional<double> Outcome::server_peak_kib_per_connection() const {
	if (!server) return {};
	return per_connection_kib(server->after.peak_resident_bytes, server->before.resident_bytes, connected);
}

std::optional<double> Outcome::doorbells_per_echo() const {
	if (!server || transport != Transport::rdma || echoes == 0) return {};
	return static_cast<double>(server->counters.send_posts + server->counters.receive_posts) /
		static_cast<double>(echoes);
}

std::optional<double> Outcome::idle_cpu_percent() const {
	if (!server || idle_from.at == 0 || idle_to.at <= idle_from.at) return {};
	return 100 * (idle_to.server.cpu_seconds - idle_from.server.cpu_seconds) /
		(static_cast<double>(idle_to.at - idle_from.at) / 1e9);
}

double Outcome::fairness() const {
	double sum = 0, squares = 0;
	for (const ClientRow& row : rows) {
		sum += row.echoes;
		squares += static_cast<double>(row.echoes) * row.echoes;
	}
	return squares > 0 ? sum * sum / (static_cast<double>(rows.size()) * squares) : 0;
}

}  // namespace verbena::scale
