// The machine's RDMA devices, and which one (with which GID) a program should use.
//
// A wrong GID is the first pain of users of RDMA, so the choice is a pure function with stated rules, and says why:
//   1. only ports that are ACTIVE; 2. the named device, if one is named; for two processes of one host otherwise vb_lo
//   (its MTU of 4096 is what UD needs); 3. on Ethernet, GIDs of a network interface that is here (the others' is in
//   another network namespace), and RoCE v2 (on an InfiniBand link any), before others; 4. an IPv4 address, then a
//   global IPv6 one, then link-local, then loopback (for two processes of one host loopback is as good as any); 5.
//   hardware before software;
//   6. the order of ibv_get_device_list and of the GID table. Where the peer's GID is known, only GIDs of its family
//   (IPv4 or IPv6) count, and its kind (loopback, link-local ...) comes before rule 4.
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

enum class GidType : std::uint8_t { infiniband, roce_v1, roce_v2 };

struct GidEntry {
	std::uint32_t index = 0;
	ibv_gid gid{};
	GidType type = GidType::roce_v2;
	std::string interface;  // network interface, empty if there is none
};

struct PortInfo {
	std::uint8_t number = 1;
	ibv_port_state state = IBV_PORT_DOWN;
	std::uint32_t active_mtu_bytes = 0;
	bool ethernet = true;
	std::string rate;  // as text, empty if unknown: "100 Gb/s"
	std::vector<GidEntry> gids;
};

struct DeviceInfo {
	std::string name;
	bool software = false;  // Verbena, rxe, siw: no adapter behind it
	std::string problem;    // why it could not be opened or queried; empty if it could
	std::vector<PortInfo> ports;
};

struct Wish {
	std::string device;               // empty: choose
	std::optional<int> gid_index;     // absent: choose
	bool both_ends_on_this_host = false;
	std::optional<ibv_gid> peer;      // whom it must reach
};

struct Choice {
	std::string device;
	bool software = false;
	std::uint8_t port = 1;
	std::uint32_t gid_index = 0;
	ibv_gid gid{};
	std::string why;
};

// Opens each device for a moment. The error is for the user: no device at all, and what to do.
std::expected<std::vector<DeviceInfo>, std::string> list_devices();

std::expected<Choice, std::string> choose(std::span<const DeviceInfo> devices, const Wish& wish);

// An open device with its protection domain, kept for a whole run.
struct OpenDevice {
	Choice choice;
	Context context;
	ProtectionDomain domain;
	ibv_device_attr attributes{};
	ibv_port_attr port{};

	std::uint32_t mtu_bytes() const { return 128u << port.active_mtu; }
	bool ethernet() const { return port.link_layer == IBV_LINK_LAYER_ETHERNET; }
};

std::expected<OpenDevice, std::string> open(const Choice& choice);

// A device that somebody else opened and will close, after this is gone: librdmacm's, of a connection. `choice` has no
// index.
std::expected<OpenDevice, std::string> borrow(ibv_context* context, std::uint8_t port, const ibv_gid& gid);

// list, choose, open.
std::expected<OpenDevice, std::string> open_best(const Wish& wish);

std::string rate_text(const ibv_port_attr& port);
std::string_view name_of(GidType type);

}  // namespace verbena::lib
