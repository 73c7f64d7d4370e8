// SPDX-License-Identifier: Apache-2.0
// Address handles, and the paths of the datagrams that name them.
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <memory>

#include "base/log.h"
#include "nic/engine/boundary.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

namespace {

bool is_ipv4(const std::uint8_t* gid) {
	wire::Gid bytes;
	std::memcpy(bytes.data(), gid, bytes.size());
	return wire::is_ipv4_mapped(bytes);
}

}  // namespace

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
	const auto interface = SoftContext::of(pd->context).device().interface();
	const wire::Gid* source = engine::gid_at(interface->gids, attributes->grh.sgid_index);
	// RoCE addresses are GIDs only: a LID is no address here (IBA Annex A17).
	if (attributes->port_num != 1 || !attributes->is_global || !source)
		return log::refuse(EINVAL,
				   "ibv_create_ah: port_num %d or is_global %d is not 1, or sgid_index %d not that of a GID",
				   attributes->port_num, attributes->is_global, attributes->grh.sgid_index),
			   nullptr;
	const bool local = is_local_address(attributes->grh.dgid.raw);
	// No packet can have an address of each family.
	if (!local && wire::is_ipv4_mapped(*source) != is_ipv4(attributes->grh.dgid.raw))
		return log::refuse(EINVAL, "ibv_create_ah: one of the two GIDs is an IPv4 address, the other an IPv6 address"),
			   nullptr;
	auto ah = std::make_unique<SoftAh>();
	ah->public_ah.context = pd->context;
	ah->public_ah.pd = pd;
	ah->attributes = *attributes;
	std::memcpy(ah->addresses.source, source->data(), 16);
	std::memcpy(ah->addresses.destination, attributes->grh.dgid.raw, 16);
	ah->addresses.traffic_class = attributes->grh.traffic_class;
	ah->addresses.hop_limit = attributes->grh.hop_limit ? attributes->grh.hop_limit : 64;
	ah->addresses.flow_label = attributes->grh.flow_label & 0xfffff;
	ah->local = local;
	++SoftPd::of(pd).users;
	return &ah.release()->public_ah;
}

// rsockets sends some datagrams to its own port by LID, which is 0 on RoCE. Such a handle gets the
// port's own GID as its destination.
ibv_ah* create_ah_for_librdmacm(ibv_pd* pd, ibv_ah_attr* attributes) {
	ibv_ah_attr by_gid = *attributes;
	const auto interface = SoftContext::of(pd->context).device().interface();
	const auto own = engine::first_gid(interface->gids);
	if (!attributes->is_global && attributes->dlid == 0 && own) {
		by_gid.is_global = 1;
		std::memcpy(by_gid.grh.dgid.raw, interface->gids[*own].data(), 16);
	}
	return create_ah(pd, &by_gid);
}

int destroy_ah(ibv_ah* ah) {
	--SoftPd::of(ah->pd).users;
	dispose(SoftAh::of(ah));
	return 0;
}

// The reverse path of a received datagram, from the 40 bytes in front of its payload. An IPv6
// header begins with 6; the IPv4 form has 20 other bytes and then the IPv4 header (wire/grh.h).
int init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attributes) {
	*attributes = {};
	attributes->port_num = port;
	attributes->sl = wc->sl;
	if (!(wc->wc_flags & IBV_WC_GRH) || port != 1) {
		log::refuse(EINVAL, "ibv_init_ah_from_wc: the completion has no GRH, or port_num %d is not 1", port);
		return -1;
	}
	std::uint8_t source[16] = {}, destination[16] = {};
	const auto* bytes = reinterpret_cast<const std::uint8_t*>(grh);
	if (bytes[0] >> 4 == 6) {
		std::memcpy(source, grh->sgid.raw, 16);
		std::memcpy(destination, grh->dgid.raw, 16);
		const std::uint32_t word = be32toh(grh->version_tclass_flow);
		attributes->grh.traffic_class = static_cast<std::uint8_t>(word >> 20);
		attributes->grh.flow_label = word & 0xfffff;
		attributes->grh.hop_limit = grh->hop_limit;
	} else {
		const std::uint8_t* ip = bytes + 20;
		source[10] = source[11] = destination[10] = destination[11] = 0xff;
		std::memcpy(source + 12, ip + 12, 4);
		std::memcpy(destination + 12, ip + 16, 4);
		attributes->grh.traffic_class = ip[1];
		attributes->grh.hop_limit = ip[8];
	}
	attributes->is_global = 1;
	std::memcpy(attributes->grh.dgid.raw, source, 16);
	wire::Gid own;
	std::memcpy(own.data(), destination, own.size());
	if (const auto index = engine::find_gid(SoftContext::of(context).device().interface()->gids, own)) {
		attributes->grh.sgid_index = *index;
		return 0;
	}
	log::refuse(ENODATA, "ibv_init_ah_from_wc: the datagram's destination is no GID of this device");
	return -1;
}

ibv_ah* create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
	ibv_ah_attr attributes;
	if (init_ah_from_wc(pd->context, port, wc, grh, &attributes)) return nullptr;
	return create_ah(pd, &attributes);
}

namespace {

// Looks the path up, and remembers it as `wanted` says.
transport::Outlet* find_path(
	engine::Engine& engine, SoftAh& ah, std::uint32_t qpn, std::uint64_t wanted, std::uint8_t& address_index) {
	const std::lock_guard lock(ah.mutex);
	ah.path.store(SoftAh::no_path, std::memory_order_release);
	auto outlet = engine.outlet_to(ah.addresses, ah.local, {qpn & 0xffffff}, false);
	if (!outlet) return nullptr;
	const auto index = engine.address_index(**outlet, ah.addresses);
	if (!index) return nullptr;
	ah.outlet.store(*outlet, std::memory_order_release);
	ah.path.store(wanted << 8 | *index, std::memory_order_release);
	address_index = *index;
	return *outlet;
}

}  // namespace

// The caller holds the lock of the queue pair's send queue, which keeps the outlet alive until the
// datagram is in the queue. Without memory for a path the datagram is lost.
transport::Outlet* datagram_outlet(
	engine::Engine& engine, SoftAh& ah, std::uint32_t qpn, std::uint8_t& address_index) noexcept {
	const std::uint32_t block = ah.local ? engine::block_of({qpn & 0xffffff}) : 0;
	const std::uint64_t wanted = std::uint64_t{engine.links_retired()} << 24 | block;
	const std::uint64_t path = ah.path.load(std::memory_order_acquire);
	if (path >> 8 == wanted) [[likely]] {
		transport::Outlet* known = ah.outlet.load(std::memory_order_acquire);
		address_index = static_cast<std::uint8_t>(path);
		// Seqlock: unchanged `path` means that `known` belongs to it.
		if (ah.path.load(std::memory_order_acquire) == path) return known;
	}
	return engine::bounded(
		"ibv_post_send, a datagram is lost", [&] { return find_path(engine, ah, qpn, wanted, address_index); },
		[](int) -> transport::Outlet* { return nullptr; });
}

}  // namespace verbena::verbs
