// SPDX-License-Identifier: Apache-2.0
// Lists the RDMA devices of this machine, and chooses the device, port and GID that a program uses.
//
// A wrong GID is the most common mistake of RDMA users. So the choice is a pure function, and
// Choice::why gives its reason. A candidate is a GID on an ACTIVE port; on Ethernet, if the peer's
// GID is known, the candidate must be of the same family (IPv4 or IPv6). If the user gave an index,
// only GIDs with that index are candidates. The first rule that distinguishes two candidates
// decides:
// 1. the device that the user named; otherwise, between two processes of one host, vb_lo, whose MTU
//    of 4096 suits UD, if the program sees it (VERBENA_DEVICES=+vb_lo, as our programs set);
// 2. on Ethernet, a GID of a network interface that exists here; a GID without one belongs to
//    another network namespace;
// 3. RoCE v2 before others; on an InfiniBand link any type;
// 4. if the peer's GID is known, a GID of the same kind (loopback, link-local, ...);
// 5. an IPv4 address, then a global IPv6 one, then link-local, then loopback; between two processes
//    of one host loopback is as good as IPv4;
// 6. hardware before software;
// 7. the order of ibv_get_device_list(3) and of the GID table.
//
// Threads: the functions are thread-safe. An OpenDevice is as thread-safe as its verbs objects.
// Owns: an OpenDevice owns its context and its protection domain.
// Lifetime: objects made on an OpenDevice are destroyed before it.
// Errors: a sentence for the user, which says what to do where that is known.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/verbs/gid.h"
#include "lib/verbs/objects.h"

namespace verbena::lib {

// The values of ibv_gid_entry::gid_type.
enum class GidType : std::uint8_t { infiniband, roce_v1, roce_v2 };

// One entry of a port's GID table.
struct GidEntry {
	std::uint32_t index = 0;  // in the GID table
	ibv_gid gid{};
	GidType type = GidType::roce_v2;
	std::string interface;  // name of the network interface; empty if there is none here
};

struct PortInfo {
	std::uint8_t number = 1;
	ibv_port_state state = IBV_PORT_DOWN;
	std::uint32_t active_mtu_bytes = 0;
	bool ethernet = true;  // false: InfiniBand
	std::string rate;  // as text, empty if unknown: "100 Gb/s"
	std::vector<GidEntry> gids;
};

struct DeviceInfo {
	std::string name;
	bool software = false;  // is_software()
	std::string problem;    // why it could not be opened or queried; else empty
	std::vector<PortInfo> ports;
};

// A program's wishes for the device that it is to use.
struct DeviceRequest {
	std::string device;  // name; empty: choose
	std::optional<int> gid_index;  // absent: choose
	bool both_ends_on_this_host = false;
	std::optional<ibv_gid> peer;  // the GID that the device must reach, if it is known
};

// The result of choose().
struct Choice {
	std::string device;
	bool software = false;
	std::uint8_t port = 1;
	std::uint32_t gid_index = 0;
	ibv_gid gid{};
	std::string why;  // a few words for the user
};

// Whether no hardware is behind the device of this name: Verbena, rxe, siw.
bool is_software(const std::string& device);

// Describes all devices; opens each of them for a moment. The error says that there is no device,
// and what to do.
std::expected<std::vector<DeviceInfo>, std::string> list_devices();

// Chooses one of these devices by the rules above.
std::expected<Choice, std::string> choose(std::span<const DeviceInfo> devices, const DeviceRequest& wish);

// An open device and its protection domain, for a whole run.
struct OpenDevice {
	Choice choice;
	Context context;
	ProtectionDomain domain;
	ibv_device_attr attributes{};  // by ibv_query_device()
	ibv_port_attr port{};  // the chosen port, by ibv_query_port()

	std::uint32_t mtu_bytes() const { return 128u << port.active_mtu; }  // the port's active MTU
	bool ethernet() const { return port.link_layer == IBV_LINK_LAYER_ETHERNET; }
};

// Opens the chosen device and makes a protection domain.
std::expected<OpenDevice, std::string> open(const Choice& choice);

// Wraps a device that librdmacm has opened for a connection, and closes after the OpenDevice is
// destroyed. Its `choice` has no GID index.
std::expected<OpenDevice, std::string> borrow(ibv_context* context, std::uint8_t port, const ibv_gid& gid);

// list_devices(), choose() and open() in one call.
std::expected<OpenDevice, std::string> open_best(const DeviceRequest& wish);

// The speed of the link as text, such as "100 Gb/s"; empty if unknown.
std::string rate_text(const ibv_port_attr& port);
// The link of a device as text, such as "Ethernet, 100 Gb/s". A software device has no rate.
std::string link_text(const OpenDevice& device);
// The type for users, such as "RoCE v2".
std::string_view name_of(GidType type);

}  // namespace verbena::lib
