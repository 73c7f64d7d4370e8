// SPDX-License-Identifier: Apache-2.0
// The exported verbs for devices: the list of ours and the real library's, opening and closing, the
// files below a device in sysfs, and the preparation for fork. exports.cc has the others.
#include <atomic>
#include <cerrno>

#include "base/log.h"
#include "nic/verbs/boundary.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/device_list.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/real_library.h"
#include "nic/verbs/traced_path.h"

namespace ours = verbena::verbs;
using ours::guarded;
using ours::InsideReal;
using ours::is_ours;
using ours::real;
using ours::Reports;

namespace {

std::atomic<bool> real_device_seen = false;

// The real library's list, or null. The caller frees it by the real library.
ibv_device** list_real_devices() {
	const InsideReal guard;
	ibv_device** list = real().ibv_get_device_list(nullptr);
	if (list && list[0]) real_device_seen = true;
	return list;
}

bool real_devices_exist() {
	if (real_device_seen) return true;
	if (ibv_device** list = list_real_devices()) real().ibv_free_device_list(list);
	return real_device_seen;
}

bool is_our_folder(const char* path) {
	bool it_is = false;
	verbena::engine::attempt([&] { it_is = ours::is_our_folder(path); });
	return it_is;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

ibv_device** ibv_get_device_list(int* num_devices) {
	const int errno_before = errno;
	ours::begin_trace();
	ours::begin_check();
	if (num_devices) *num_devices = 0;

	ibv_device** real_list = list_real_devices();
	std::vector<ibv_device*> our_list;
	void* const caller = __builtin_return_address(0);
	const bool listed = verbena::engine::bounded(
		"ibv_get_device_list",
		[&] {
			if (InsideReal::here()) return true;
			// If there are real devices, the kernel serves librdmacm.
			if (!real_device_seen) ours::serve_librdmacm(caller);
			our_list = ours::our_devices();
			return true;
		},
		[](int) { return false; });
	if (!listed && !real_list) return nullptr;
	if (!real_list && our_list.empty()) return nullptr;  // the real library has set errno

	ibv_device** list = ours::make_device_list(real_list, our_list);
	if (!list) {
		if (real_list) real().ibv_free_device_list(real_list);
		verbena::log::refuse(ENOMEM, "ibv_get_device_list: no memory");
		return nullptr;
	}
	if (num_devices) *num_devices = ours::device_count(list);
	errno = errno_before;
	return list;
}

void ibv_free_device_list(ibv_device** list) {
	if (!list) return;
	if (ibv_device** real_list = ours::release_device_list(list)) real().ibv_free_device_list(real_list);
}

const char* ibv_get_device_name(ibv_device* device) {
	return is_ours(device) ? ours::get_device_name(device) : real().ibv_get_device_name(device);
}

int ibv_get_device_index(ibv_device* device) {
	return is_ours(device) ? ours::get_device_index(device) : real().ibv_get_device_index(device);
}

__be64 ibv_get_device_guid(ibv_device* device) {
	return is_ours(device) ? ours::get_device_guid(device) : real().ibv_get_device_guid(device);
}

ibv_context* ibv_open_device(ibv_device* device) {
	return is_ours(device) ? guarded<ours::open_device>(device) : real().ibv_open_device(device);
}

int ibv_close_device(ibv_context* context) {
	return is_ours(context) ? guarded<ours::close_device>(context) : real().ibv_close_device(context);
}

// The real library also calls this function itself while it holds its lock (InsideReal); then our
// own mutex must not be taken.
int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size) {
	if (!InsideReal::here() && is_our_folder(dir))
		return guarded<ours::read_sysfs_file, Reports::minus_one>(dir, file, buf, size);
	return guarded<ours::read_file, Reports::minus_one>(dir, file, buf, size);
}

// ---- Fork. Our NIC needs no preparation. The real library must prepare its memory before any of
// its devices is used, so ibv_fork_init always calls it; but its failure matters only if there is a
// real device. The real library may call ibv_fork_init during its own start, under its lock
// (RDMAV_FORK_SAFE), so its devices cannot be listed here.

int ibv_fork_init() {
	ours::note_fork_init();
	const InsideReal guard;
	const int error = real().ibv_fork_init();
	return real_device_seen ? error : 0;
}

ibv_fork_status ibv_is_fork_initialized() {
	return InsideReal::here() || real_devices_exist() ? real().ibv_is_fork_initialized() : IBV_FORK_UNNEEDED;
}

#pragma GCC visibility pop
}  // extern "C"
