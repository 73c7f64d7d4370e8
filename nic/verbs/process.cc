// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/process.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <pthread.h>
#include <set>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "base/log.h"
#include "nic/engine/boundary.h"
#include "nic/engine/fault_handler.h"
#include "nic/engine/status.h"
#include "nic/engine/unreachable.h"
#include "nic/heap/heap.h"
#include "nic/rules/watchpoint.h"
#include "nic/trace/trace.h"
#include "nic/ucma/interpose.h"
#include "nic/verbs/adverse_path.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/checked_arrivals.h"
#include "nic/verbs/checked_calls.h"
#include "nic/verbs/dead_context.h"
#include "nic/verbs/devices.h"
#include "nic/verbs/engine_counters.h"
#include "nic/verbs/fault_injection.h"
#include "nic/verbs/limits.h"
#include "nic/verbs/open_counters.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/strict.h"
#include "nic/verbs/traced_path.h"

namespace verbena::verbs {

const char our_mark = 'v';

namespace {

// Reading the interfaces from the kernel costs as much as the rest of a connection's set-up. Where
// the engine does not report their changes, they are read ten times a second only.
constexpr Nanoseconds interfaces_age_max = 100'000'000;

std::string wanted_devices() {
	const char* wanted = std::getenv("VERBENA_DEVICES");
	return wanted ? wanted : "";
}

struct Process {
	std::mutex mutex;
	std::unique_ptr<engine::Engine> engine;
	Devices devices{wanted_devices()};
	bool interfaces_known = false;  // they were read, at `interfaces_read_at`
	Nanoseconds interfaces_read_at = 0;
	std::set<SoftContext*> contexts;  // open ones
	bool fork_handler = false;
	std::unique_ptr<ucma::Kernel> kernel;  // null until librdmacm has called
};

// Never destroyed: programs call verbs from their own destructors and exit handlers.
Process& process() {
	static Process& instance = *new Process;
	return instance;
}

// The child gets a copy of the engine, so the fork must not happen in the middle of a pass.
thread_local bool engine_held = false;

void before_fork() {
	Process& p = process();
	note_fork();
	p.mutex.lock();
	engine_held = p.engine && p.engine->hold_for_fork();
}

void after_fork_in_parent() {
	Process& p = process();
	if (engine_held) p.engine->release_in_parent();
	p.mutex.unlock();
}

// A fork's child has no progress thread, and its copies of our descriptors would hide the parent's
// death from peers, so it closes them all. It can destroy the objects that it inherited; every
// other use of them fails with EIO. The next device that it opens starts a new engine.
void after_fork_in_child() {
	Process& p = process();
	engine::EngineLock::forget_thread();
	new (&p.mutex) std::mutex;  // the parent's thread holds the old one
	p.devices.reset_locks_after_fork();
	for (SoftContext* context : p.contexts) {
		context->dead = true;
		fill_dead(context->verbs);
	}
	p.contexts.clear();
	forget_open_counters();
	trace::abandon_after_fork();
	renew_check_after_fork();
	if (p.kernel) p.kernel->abandon_after_fork();
	if (p.engine) p.engine.release()->abandon_after_fork();  // leaked: inherited objects use it
}

void deliver_connection_event(cm::ConnectionManager& connections, Nanoseconds now, const cm::Event& event) {
	// Not null: the ucma::Kernel made the connection.
	process().kernel->deliver(connections, now, event);
}

// The caller holds the mutex, which keeps the contexts open.
void deliver(const std::vector<DeviceEvent>& events) {
	for (const DeviceEvent& each : events) {
		ibv_async_event event{};
		event.event_type = each.type;
		event.element.port_num = 1;
		for (SoftContext* context : process().contexts)
			if (&context->device() == each.device) context->async_events.push(event);
	}
}

// Reads the interfaces from the kernel. If that fails, for example because the program has used up
// its descriptors, what was known before stays. The caller holds the mutex.
bool read_interfaces() {
	Process& p = process();
	auto now = engine::list_interfaces();
	if (!now) {
		// Without any interface the program finds no device.
		if (!p.interfaces_known) engine::explain_no_interfaces(now.error());
		return false;
	}
	p.interfaces_known = true;
	p.interfaces_read_at = monotonic_now();
	deliver(p.devices.update(std::move(*now)));
	return true;
}

// Reads the interfaces, unless they are known well enough. The caller holds the mutex.
void refresh_interfaces() {
	Process& p = process();
	const bool reported = p.engine && p.engine->watches_interfaces();
	if (!p.interfaces_known || (!reported && monotonic_now() - p.interfaces_read_at > interfaces_age_max))
		read_interfaces();
}

bool interfaces_changed(std::span<const engine::LinkChange> links) {
	const std::lock_guard lock(process().mutex);
	for (const engine::LinkChange& link : links) deliver(process().devices.update(link));
	return read_interfaces();
}

std::string status_text(engine::Engine& engine) {
	status::Process status{.pid = static_cast<std::uint32_t>(getpid()),
		.uid = geteuid(),
		.time = monotonic_now(),
		.program = program_invocation_short_name};
	status.queue_pairs = engine::queue_pairs_of(engine);
	CounterValues values;
	{
		const std::lock_guard lock(process().mutex);
		for (ibv_device* listed : process().devices.list())
			values.link_downs += SoftDevice::of(listed).link_downs.load(std::memory_order_relaxed);
	}
	read_counters(engine, values);
	for (const Counter& counter : all_counters()) status.counters.emplace_back(counter.name, counter.of(values));
	return status::render(status);
}

}  // namespace

std::expected<engine::Engine*, int> process_engine() {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	if (p.engine) return p.engine.get();
	engine::retry_faults_if(heap::wait_for_move);
	engine::install_fault_handler();
	if (checked() && checked()->wants_polled_writes()) engine::ignore_traps_if(rules::is_watch_without_cause);
	heap::watch_forks();  // before ours: its lock is taken after the engine's
	if (!p.fork_handler)
		if (const int error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child))
			return std::unexpected(error);
	p.fork_handler = true;
	if (const int error = check_profile()) return std::unexpected(error);
	auto network = network_of_environment();
	if (!network) return std::unexpected(network.error());
	const auto adverse = read_adversary();
	if (!adverse) return std::unexpected(adverse.error());
	if (*adverse) be_strict();
	auto started = engine::Engine::start({deliver_completion_event, deliver_async_event, deliver_connection_event,
											 interfaces_changed, show_counters, status_text},
		std::move(*network), !*adverse && !checked());  // both need each request to arrive
	if (!started) {
		engine::explain_no_start(started.error());
		return std::unexpected(started.error());
	}
	p.engine = std::move(*started);
	if (device_limits().read_sink_needs_remote_write)
		p.engine->control(
			[](adapter::ChannelAdapter& adapter) { adapter.context().read_sink_access |= memory::remote_write; });
	if (is_strict())
		p.engine->control([](adapter::ChannelAdapter& adapter) { adapter.context().keys.use_distinct_keys(); });
	trace_transport(*p.engine);
	check_arrivals(*p.engine);
	begin_adversary(*p.engine);
	log::debug("the NIC has started in process %d", getpid());
	// A change before this moment was not reported.
	p.interfaces_known = false;
	p.engine->watch_counters(counters_are_open());
	return p.engine.get();
}

bool is_our_folder(std::string_view path) {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	return p.devices.has_folder(path);
}

const SoftDevice* find_device(std::string_view name) {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	return p.devices.find(name);
}

CounterValues counter_values(const SoftDevice& device) {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	CounterValues values{.link_downs = device.link_downs.load(std::memory_order_relaxed)};
	if (p.engine) read_counters(*p.engine, values);
	return values;
}

void watch_counters() {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	if (!p.engine) return;
	p.engine->watch_counters(true);
	// Shows what happened since the file was made.
	p.engine->control([](adapter::ChannelAdapter&) {});
}

bool is_local_address(const std::uint8_t (&gid)[16]) {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	refresh_interfaces();
	wire::Gid address;
	std::memcpy(address.data(), gid, address.size());
	if (engine::is_loopback(address)) return true;
	return std::ranges::any_of(p.devices.interfaces(),
		[&](const engine::Interface& interface) { return engine::find_gid(interface.gids, address).has_value(); });
}

void visit_devices(const std::function<void(const SoftDevice&)>& visit) {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	refresh_interfaces();
	for (ibv_device* listed : p.devices.list()) visit(SoftDevice::of(listed));
}

namespace {

ucma::ReadLimits read_limits() {
	const profile::Limits& most = device_limits();
	return {.served = static_cast<std::uint8_t>(most.max_qp_rd_atom),
		.sent = static_cast<std::uint8_t>(most.max_qp_init_rd_atom)};
}

std::vector<ucma::Device> devices_for_rdma_cm() {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	refresh_interfaces();
	std::vector<ucma::Device> devices;
	for (ibv_device* listed : p.devices.list()) {
		const SoftDevice& device = SoftDevice::of(listed);
		devices.push_back({device.guid, device.index, *device.interface()});
	}
	return devices;
}

bool is_local_gid(const wire::Gid& gid) {
	std::uint8_t bytes[16];
	std::memcpy(bytes, gid.data(), sizeof bytes);
	return is_local_address(bytes);
}

// At exit: says goodbye on open connections, as the kernel's rdma_cm would for a process that ends,
// and sends the acknowledgements that wait.
[[gnu::destructor]] void leave() {
	end_check();
	Process& p = process();
	if (p.engine && std::getenv("VERBENA_STATS")) engine::attempt([&] { print_stats(*p.engine); });
	if (p.kernel) engine::attempt([&] { p.kernel->disconnect_all(); });
	engine::attempt([] { end_adversary(); });
	if (p.engine) engine::attempt([&] { p.engine->leave_behind_nothing(); });
	if (p.engine && p.engine->network()) engine::attempt([&] { report_faults(*p.engine); });
}

}  // namespace

void serve_librdmacm(void* caller) {
	Process& p = process();
	{
		const std::lock_guard lock(p.mutex);
		if (!p.kernel)
			p.kernel = std::make_unique<ucma::Kernel>(ucma::Host{process_engine, devices_for_rdma_cm, is_local_gid,
				create_ah_for_librdmacm, leave_groups, ibv_destroy_qp, note_id_end, read_limits()});
	}
	ucma::redirect_if_librdmacm(caller, *p.kernel);
}

void refresh_devices() {
	const std::lock_guard lock(process().mutex);
	refresh_interfaces();
}

void add_context(SoftContext& context) {
	const std::lock_guard lock(process().mutex);
	process().contexts.insert(&context);
}

void remove_context(SoftContext& context) {
	const std::lock_guard lock(process().mutex);
	process().contexts.erase(&context);
}

std::vector<ibv_device*> our_devices() {
	const std::lock_guard lock(process().mutex);
	read_interfaces();
	return process().devices.list();
}

const char* get_device_name(ibv_device* device) { return device->name; }
int get_device_index(ibv_device* device) { return SoftDevice::of(device).index; }
__be64 get_device_guid(ibv_device* device) { return htobe64(SoftDevice::of(device).guid); }

}  // namespace verbena::verbs
