#include "nic/verbs/process.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <endian.h>
#include <pthread.h>
#include <set>
#include <string>
#include <vector>

#include "nic/engine/fault_handler.h"
#include "nic/ucma/interpose.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

const char our_mark = 'v';

namespace {

// Reading the interfaces from the kernel costs as much as the rest of a connection's set-up, so a
// program that makes thousands of connections reads them ten times a second only.
constexpr Nanoseconds interfaces_age_max = 100'000'000;

struct Process {
	std::mutex mutex;
	std::unique_ptr<engine::Engine> engine;
	std::vector<std::unique_ptr<SoftDevice>> devices;  // every device ever listed; never removed
	std::vector<ibv_device*> listed;  // those whose interface existed at the last refresh
	std::vector<engine::Interface> interfaces;  // read at `interfaces_read_at`
	Nanoseconds interfaces_read_at = 0, devices_read_at = 0;
	std::set<SoftContext*> contexts;  // open ones
	bool fork_handler = false;
	std::unique_ptr<ucma::Kernel> kernel;  // null until librdmacm has called
};

// Never destroyed: programs call verbs from their own destructors and exit handlers.
Process& process() {
	static Process& instance = *new Process;
	return instance;
}

template <class... Parameters> int gone(Parameters...) { return errno = EIO; }
template <class Queue, class WorkRequest> int dead_post(Queue*, WorkRequest* request, WorkRequest** bad) {
	*bad = request;
	return gone();
}

// Replaces the data path of a context that a fork's child inherited by functions that fail with
// EIO.
void fill_dead(verbs_context& v) {
	ibv_context_ops& ops = v.context.ops;
	ops.post_send = dead_post;
	ops.post_recv = dead_post;
	ops.post_srq_recv = dead_post;
	ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return gone(), -1; };
	ops.req_notify_cq = gone;
	ops.bind_mw = gone;
}

// The child gets a copy of the engine, so the fork must not happen in the middle of a pass.
thread_local bool engine_held = false;

void before_fork() {
	Process& p = process();
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
	for (SoftContext* context : p.contexts) {
		context->dead = true;
		fill_dead(context->verbs);
	}
	p.contexts.clear();
	if (p.kernel) p.kernel->abandon_after_fork();
	if (p.engine) p.engine.release()->abandon_after_fork();  // leaked: inherited objects use it
}

void deliver_connection_event(cm::ConnectionManager& connections, Nanoseconds now, const cm::Event& event) {
	// Not null: the ucma::Kernel made the connection.
	process().kernel->deliver(connections, now, event);
}

SoftDevice* make_device(const engine::Interface& interface, int index) {
	auto device = std::make_unique<SoftDevice>();
	device->interface = interface;
	device->index = index;
	ibv_device& d = device->public_device;
	d._ops._dummy1 = reinterpret_cast<decltype(d._ops._dummy1)>(const_cast<char*>(&our_mark));
	d.node_type = IBV_NODE_CA;
	d.transport_type = IBV_TRANSPORT_IB;
	const std::string name = engine::device_name(interface.name);
	std::snprintf(d.name, sizeof d.name, "%s", name.c_str());
	std::snprintf(d.dev_name, sizeof d.dev_name, "%s", name.c_str());
	std::snprintf(d.dev_path, sizeof d.dev_path, "/dev/infiniband/%s", name.c_str());
	std::snprintf(d.ibdev_path, sizeof d.ibdev_path, "/sys/class/infiniband/%s", name.c_str());
	process().devices.push_back(std::move(device));
	return process().devices.back().get();
}

// Lists the interfaces again. An interface that is known by name and GUID keeps its SoftDevice, so
// pointers that programs hold stay valid. The caller holds the mutex.
void refresh_devices() {
	Process& p = process();
	p.listed.clear();
	for (const engine::Interface& interface : engine::list_interfaces()) {
		const auto known = std::find_if(p.devices.begin(), p.devices.end(),
			[&](const auto& d) { return d->interface.name == interface.name && d->interface.guid == interface.guid; });
		SoftDevice* device =
			known != p.devices.end() ? known->get() : make_device(interface, static_cast<int>(p.devices.size()));
		device->interface = interface;
		p.listed.push_back(&device->public_device);
	}
}

}  // namespace

std::expected<engine::Engine*, int> process_engine() {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	if (p.engine) return p.engine.get();
	engine::install_fault_handler();
	if (!p.fork_handler) pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
	p.fork_handler = true;
	auto started = engine::Engine::start({deliver_completion_event, deliver_async_event, deliver_connection_event});
	if (!started) return std::unexpected(started.error());
	p.engine = std::move(*started);
	return p.engine.get();
}

bool is_our_folder(std::string_view path) {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	return std::ranges::any_of(
		p.devices, [path](const auto& device) { return path == device->public_device.ibdev_path; });
}

transport::Counters process_counters() {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	if (!p.engine) return {};
	return p.engine->control([](adapter::ChannelAdapter& adapter) { return adapter.context().counters; });
}

bool is_local_address(const std::uint8_t (&gid)[16]) {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	const Nanoseconds now = monotonic_now();
	if (p.interfaces.empty() || now - p.interfaces_read_at > interfaces_age_max) {
		p.interfaces = engine::list_interfaces();
		p.interfaces_read_at = now;
	}
	for (const engine::Interface& interface : p.interfaces)
		for (const wire::Gid& own : interface.gids)
			if (std::memcmp(own.data(), gid, 16) == 0) return true;
	return false;
}

namespace {

std::vector<ucma::Device> devices_for_rdma_cm() {
	Process& p = process();
	const std::lock_guard lock(p.mutex);
	const Nanoseconds now = monotonic_now();
	if (p.listed.empty() || now - p.devices_read_at > interfaces_age_max) {
		refresh_devices();
		p.devices_read_at = now;
	}
	std::vector<ucma::Device> devices;
	for (ibv_device* listed : p.listed) {
		const SoftDevice& device = SoftDevice::of(listed);
		devices.push_back({device.interface.guid, device.index, device.interface});
	}
	return devices;
}

bool is_local_gid(const wire::Gid& gid) {
	std::uint8_t bytes[16];
	std::memcpy(bytes, gid.data(), sizeof bytes);
	return is_local_address(bytes);
}

}  // namespace

namespace {

// At exit: says goodbye on open connections, as the kernel's rdma_cm would for a process that ends.
[[gnu::destructor]] void leave() {
	if (Process& p = process(); p.kernel) p.kernel->disconnect_all();
}

}  // namespace

void serve_librdmacm(void* caller) {
	Process& p = process();
	{
		const std::lock_guard lock(p.mutex);
		if (!p.kernel)
			p.kernel = std::make_unique<ucma::Kernel>(
				ucma::Host{process_engine, devices_for_rdma_cm, is_local_gid, create_ah_for_librdmacm});
	}
	ucma::redirect_if_librdmacm(caller, *p.kernel);
}

void add_context(SoftContext& context) {
	const std::lock_guard lock(process().mutex);
	process().contexts.insert(&context);
}

void remove_context(SoftContext& context) {
	const std::lock_guard lock(process().mutex);
	process().contexts.erase(&context);
}

std::span<ibv_device* const> our_devices() {
	thread_local std::vector<ibv_device*> mine;
	const std::lock_guard lock(process().mutex);
	refresh_devices();
	mine = process().listed;
	return mine;
}

const char* get_device_name(ibv_device* device) { return device->name; }
int get_device_index(ibv_device* device) { return SoftDevice::of(device).index; }
__be64 get_device_guid(ibv_device* device) { return htobe64(SoftDevice::of(device).interface.guid); }

}  // namespace verbena::verbs
