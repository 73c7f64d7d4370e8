// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/server_process.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "bench/scale/process_plan.h"

namespace verbena::scale {
namespace {

EchoService* running = nullptr;
extern "C" void on_stop(int) {
	if (running != nullptr) running->stop();
}

channel::RcOptions server_options(const RunOptions& options) {
	const SwarmOptions& swarm = options.swarm;
	channel::RcOptions rc = options.engine == Engine::threads ? rc_options_per_thread
		: swarm.logical()                                     ? rc_options(swarm, swarm.queue_pairs)
						  : channel::many_connections({.units_max = std::max(8192u, swarm.clients * 6),
								.connections_max = swarm.clients + 16});
	rc.coalesce = swarm.without != Without::coalescing;
	if (swarm.without == Without::pooling) rc = channel::with_own_receives(rc);
	if (swarm.without == Without::batched_polling) rc.poll_batch = 1;
	return rc;
}

}  // namespace

void serve(const RunOptions& options, EchoCounts& counts, int out) {
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	std::signal(SIGINT, SIG_IGN);  // the parent gets Ctrl-C as well, and decides
	use_all_descriptors();
	ServerReport report;
	const auto say = [&] { return write(out, &report, sizeof report) == static_cast<ssize_t>(sizeof report); };
	const SwarmOptions& swarm = options.swarm;
	channel::MuxOptions mux = mux_options(swarm);
	mux.window = 16 << 10;
	EchoService service({.where = async::resolve("127.0.0.1", 0).value(),
		.protection = options.server_protection,
		.wish = {.both_ends_on_this_host = true},
		.rc = server_options(options),
		.acceptor = {.protection = options.server_protection},
		.engine = options.engine,
		.threads = swarm.clients,
		.logical = swarm.logical() ? swarm.clients : 0,
		.mux = mux,
		.spin = options.server_spin,
		.rdmacm = swarm.connect_by == ConnectBy::rdmacm,
		.counts = &counts});
	auto started = service.start();
	if (started && !service.rdmacm_error().empty()) started = std::unexpected(service.rdmacm_error());
	if (!started) {
		put(report.error, started.error());
		say();
		return;
	}
	running = &service;
	std::signal(SIGTERM, on_stop);
	const channel::Path path = service.path();
	report.port = service.port();
	put(report.device, path.device);
	put(report.gid, path.gid);
	report.engine = service.engine();
	put(report.engine_fallback_reason, service.engine_fallback_reason());
	report.mtu = path.mtu;
	report.queue_pairs_max = service.queue_pairs_max();
	report.before = use_of_process(getpid());
	if (!say()) return;
	service.run();
	report.after = use_of_process(getpid());
	report.peak = counts.peak;
	report.echoed = counts.echoed;
	report.lost = counts.lost;
	report.refused = service.acceptor_counters().refused;
	report.counters = service.counters();
	say();
}

}  // namespace verbena::scale
