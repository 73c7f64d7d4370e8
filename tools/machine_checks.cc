// SPDX-License-Identifier: Apache-2.0
#include "tools/machine_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/private_folder.h"
#include "base/udp_port_owner.h"
#include "base/user_secret.h"
#include "lib/verbs/device.h"

namespace verbena::tools {
namespace {

constexpr int roce_port = 4791;

bool any_interface_is_up() {
	ifaddrs* found = nullptr;
	if (getifaddrs(&found) != 0) return true;  // not known
	const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(found, freeifaddrs);
	for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next)
		if ((each->ifa_flags & IFF_UP) != 0) return true;
	return false;
}

bool module_loaded(const char* name) { return std::filesystem::exists(std::string("/sys/module/") + name); }

Finding check_wire_port() {
	const char* subject = "UDP port 4791 (RoCE v2)";
	const Descriptor socket_fd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const Descriptor ipv4_fd(socket_fd ? -1 : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const int fd = socket_fd ? socket_fd.get() : ipv4_fd.get();
	if (fd < 0)
		return {subject, Level::problem, std::strerror(errno),
			"allow UDP sockets: a seccomp profile or a security module forbids them"};
	const int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
	sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(roce_port)};
	sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(roce_port)};
	const bool bound = socket_fd ? bind(fd, reinterpret_cast<sockaddr*>(&v6), sizeof v6) == 0
								 : bind(fd, reinterpret_cast<sockaddr*>(&v4), sizeof v4) == 0;
	if (bound) return {subject, Level::good, "can be bound", ""};
	if (errno != EADDRINUSE)
		return {subject, Level::problem, std::strerror(errno),
			"allow binding UDP port 4791; without it only processes of this host can be reached"};
	const auto owner = udp_port_owner(roce_port);
	if (module_loaded("rdma_rxe"))
		return {subject, Level::problem, "in use by the kernel's Soft-RoCE (rdma_rxe)",
			"remove its links (rdma link delete NAME) or run in another network namespace; connections within this "
			"host work without the port"};
	return {subject, Level::problem, owner ? fmt::format("in use by a program of user id {}", *owner) : "in use",
		"set VERBENA_PEERS=host for the programs of both users, stop that program (find it with: ss -ulpn 'sport = "
		"4791') or run in another network namespace; connections within this host work without the port"};
}

Finding check_receive_buffer() {
	std::ifstream file("/proc/sys/net/core/rmem_max");
	long bytes = 0;
	file >> bytes;
	if (bytes >= 4 << 20)
		return {"socket receive buffer", Level::good, fmt::format("net.core.rmem_max = {}", bytes), ""};
	if (bytes == 0) return {"socket receive buffer", Level::note, "net.core.rmem_max cannot be read here", ""};
	return {"socket receive buffer", Level::note, fmt::format("net.core.rmem_max = {}", bytes),
		"less can be in flight to this machine, and bursts of datagrams may be lost: raise it with 'sysctl -w "
		"net.core.rmem_max=4194304' (as root)"};
}

Finding check_descriptors() {
	rlimit limit{};
	getrlimit(RLIMIT_NOFILE, &limit);
	const std::string seen = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
	if (limit.rlim_cur >= 1024) return {"open files (ulimit -n)", Level::good, seen, ""};
	return {"open files (ulimit -n)", Level::note, seen,
		"each peer process needs four descriptors: raise the limit with 'ulimit -n 4096'"};
}

Finding check_names() {
	const char* subject = "names of sockets";
	const auto secret = find_user_secret();
	if (!secret)
		return {subject, Level::note, "other users can predict them",
			"another user of this host could take them, and your processes would not find each other: allow keyctl and "
			"add_key in the seccomp profile, or set XDG_RUNTIME_DIR to a folder of yours with mode 700"};
	return {subject, Level::good,
		secret->where == UserSecret::Where::keyring ? "the secret is in the user keyring" : "the secret is in a file",
		""};
}

Finding check_private_folder() {
	const char* subject = "private folder";
	const char* advice =
		"without one, /dev/infiniband and /sys/class/infiniband show no device: set XDG_RUNTIME_DIR to a folder of "
		"yours with mode 700";
	const auto folders = private_folders();
	const auto used = std::ranges::find_if(
		folders, [](const std::string& path) { return bool(Descriptor(open_private_folder(path))); });
	const bool found = used != folders.end();
	const std::string seen = found ? *used : "none";
	if (const auto foreign = foreign_folder({folders.begin(), used}))
		return {subject, found ? Level::note : Level::problem,
			fmt::format("{}: user id {} has made {}", seen, foreign->owner, foreign->path),
			found ? "let root remove the other user's folder, or set XDG_RUNTIME_DIR to a folder of yours with mode 700"
				  : advice};
	return {subject, found ? Level::good : Level::note, seen, found ? "" : advice};
}

Finding check_processor() {
	const unsigned cores = std::thread::hardware_concurrency();
	if (cores < 2)
		return {"processor", Level::note, "one core",
			"two polling processes share it, so rates will be low: use a machine with two cores"};
	if (!__builtin_cpu_supports("avx2"))
		return {"processor", Level::note, fmt::format("{} cores, no AVX2", cores),
			"copies use 16-byte registers, so large messages are slower"};
	return {"processor", Level::good, fmt::format("{} cores, AVX2", cores), ""};
}

Finding check_kernel_devices() {
	std::string loaded;
	for (const char* module : {"ib_uverbs", "rdma_rxe", "siw", "mlx5_ib", "mlx4_ib", "irdma", "bnxt_re", "efa"})
		if (module_loaded(module)) loaded += (loaded.empty() ? "" : " ") + std::string(module);
	return {"kernel RDMA modules", Level::good, loaded.empty() ? "none loaded (none is needed)" : loaded, ""};
}

// The entries of a folder as a program without the NIC sees them: in this one, files of the devices
// are the NIC's (nic/presence).
std::optional<std::vector<std::string>> entries_of(const char* folder) {
	std::FILE* const list = popen(fmt::format("ls -1A {} 2>/dev/null", folder).c_str(), "re");
	if (list == nullptr) return std::nullopt;
	std::vector<std::string> names(1);
	for (int c; (c = std::fgetc(list)) != EOF;) {
		if (c == '\n') names.emplace_back();
		else names.back() += static_cast<char>(c);
	}
	names.pop_back();
	return pclose(list) == 0 ? std::optional(names) : std::nullopt;
}

std::string listed(const char* folder) {
	const auto names = entries_of(folder);
	if (!names) return fmt::format("there is no {}", folder);
	return names->empty() ? fmt::format("{} is empty", folder)
						  : fmt::format("{} has {}", folder, fmt::join(*names, " "));
}

// Where libibverbs looks for devices in a program that runs without the NIC.
Finding check_devices_without_the_nic() {
	return {"devices without 'verbena run'", Level::good,
		fmt::format(
			"{}; {}; {}", listed("/sys/class/infiniband"), listed("/dev/infiniband"), listed("/etc/libibverbs.d")),
		""};
}

}  // namespace

Finding check_devices() {
	const auto devices = lib::list_devices();
	if (!devices && !any_interface_is_up())
		return {"RDMA devices", Level::problem, "none, because no network interface is up",
			"bring one up; between processes of this host 'ip link set lo up' is enough"};
	if (!devices)
		return {"RDMA devices", Level::problem, "none",
			"run programs under 'verbena run -- PROGRAM'; if this line does not change, libverbena-nic.so could not "
			"start: see the problems below"};
	std::string names;
	for (const auto& device : *devices) {
		names += (names.empty() ? "" : ", ") + device.name;
		if (!device.ports.empty()) names += fmt::format(" (MTU {})", device.ports.front().active_mtu_bytes);
	}
	const auto choice = lib::choose(*devices, {});
	if (choice) return {"RDMA devices", Level::good, names, ""};
	return {"RDMA devices", Level::problem, names + ": " + choice.error(),
		"see their ports and GIDs with 'verbena devices'"};
}

Findings check_network_and_limits() {
	return {check_wire_port(), check_names(), check_private_folder(), check_receive_buffer(), check_descriptors(),
		check_processor(), check_kernel_devices(), check_devices_without_the_nic()};
}

}  // namespace verbena::tools
