// SPDX-License-Identifier: Apache-2.0
// Memory regions and memory windows.
#include <cerrno>
#include <memory>
#include <span>

#include "base/kept_errno.h"
#include "base/log.h"
#include "nic/engine/boundary.h"
#include "nic/heap/heap.h"
#include "nic/memory/mapped.h"
#include "nic/verbs/adverse_path.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/direct.h"
#include "nic/verbs/limits.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {
namespace {

constexpr unsigned required_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
// Bits 20 to 29 (IBV_ACCESS_OPTIONAL_RANGE) are hints, which a provider ignores if unknown.
constexpr unsigned optional_access = 0x3ff00000;

// ibv_reg_mr(3): remote write and remote atomic need local write.
bool access_allowed(unsigned access) {
	if (access & ~(required_access | optional_access)) return false;
	return !(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) || (access & IBV_ACCESS_LOCAL_WRITE);
}

memory::KeyTable::Registration registration(
	ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access) {
	return {SoftPd::of(pd).number, iova, reinterpret_cast<std::uint64_t>(address), length,
		static_cast<std::uint8_t>((access & 0x3f) | (access & IBV_ACCESS_ON_DEMAND ? memory::on_demand : 0))};
}

// Smaller regions outside of the heap are not shared: copying them costs no more than finding their
// file.
constexpr std::size_t shared_bytes_min = 64 << 10;

// The file that holds the memory, if a peer may read it and can map it (docs/decisions/0016).
std::optional<engine::Backing> backing_of(const void* address, std::size_t length, unsigned access) {
	if (is_adverse() || length < wire::Direction::shared_payload_bytes_min || length == SIZE_MAX ||
		!(access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)))
		return std::nullopt;
	if (const auto place = heap::find(address, length))
		return engine::Backing{.descriptor = {},  // the heap's own
			.file = {place->file, place->offset, static_cast<std::uint32_t>(place->descriptor)}};
	return length < shared_bytes_min ? std::nullopt : engine::find_backing(address, length);
}

// Without memory for the list, peers get copies of the region.
void share(memory::SharedRegions& shared, SoftMr& mr) {
	const auto add = [&] {
		shared.add(reinterpret_cast<std::uint64_t>(mr.public_mr.addr), mr.public_mr.length, mr.backing->file);
	};
	if (mr.backing && !engine::attempt(add)) mr.backing.reset();
}

void unshare(memory::SharedRegions& shared, const SoftMr& mr) {
	if (mr.backing) shared.remove(reinterpret_cast<std::uint64_t>(mr.public_mr.addr), mr.backing->file);
}

// The first page that is not mapped, for regions that hardware pins: those without on-demand
// paging.
std::optional<std::uint64_t> unmapped(std::uint64_t begin, std::size_t length, unsigned access) {
	if (access & IBV_ACCESS_ON_DEMAND) return std::nullopt;
	const KeptErrno kept;
	return memory::first_unmapped(begin, begin + length);
}

int refuse_unmapped(const char* verb, std::uint64_t begin, std::size_t length, std::uint64_t missing) {
	const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
	return log::refuse(EFAULT,
		"%s: of [0x%llx, 0x%llx) the page at 0x%llx is not mapped; was the memory freed, or is the length that of "
		"another buffer?",
		verb, number(begin), number(begin + length), number(missing));
}

// On-demand paging pins nothing.
std::optional<PinnedMemory> pin(std::uint64_t begin, std::size_t length, unsigned access) {
	return access & IBV_ACCESS_ON_DEMAND ? PinnedMemory() : PinnedMemory::pin(begin, length);
}

}  // namespace

ibv_mr* reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned int access) {
	if (!access_allowed(access))
		return log::refuse(EINVAL,
				   "ibv_reg_mr: access 0x%x has unknown bits, or remote write or atomic access without "
				   "IBV_ACCESS_LOCAL_WRITE",
				   access),
			   nullptr;
	if (access & IBV_ACCESS_ON_DEMAND && !device_limits().paging)
		return refuse_by_profile(EOPNOTSUPP, "ibv_reg_mr: the device has no on-demand paging"), nullptr;
	const auto begin = reinterpret_cast<std::uint64_t>(address);
	// ibv_reg_mr(3): address NULL and the largest length register the whole address space.
	const bool implicit = !address && length == SIZE_MAX && (access & IBV_ACCESS_ON_DEMAND);
	if (!implicit && (begin + length < begin || iova + length < iova))
		return log::refuse(EINVAL, "ibv_reg_mr: %zu bytes at %p pass the end of the address space", length, address),
			   nullptr;
	if (const auto missing = unmapped(begin, length, access))
		return refuse_unmapped("ibv_reg_mr", begin, length, *missing), nullptr;
	auto pinned = pin(begin, length, access);
	if (!pinned) return refuse_pinned("ibv_reg_mr", length), nullptr;
	auto mr = std::make_unique<SoftMr>();
	mr->pinned = std::move(*pinned);
	mr->access = access;
	mr->iova = iova;
	ibv_mr& m = mr->public_mr;
	m.context = pd->context;
	m.pd = pd;
	m.addr = address;
	m.length = length;
	mr->backing = backing_of(address, length, access);
	m.lkey = SoftContext::of(pd->context).engine->control([&](adapter::ChannelAdapter& adapter) {
		const std::uint32_t key =
			adapter.context().keys.register_region(registration(pd, address, length, iova, access));
		m.rkey = key;
		share(adapter.context().shared, *mr);
		publish(adapter.context(), *mr);
		return adapter.context().keys.lkey_of(key);
	});
	m.handle = m.rkey;
	++SoftPd::of(pd).users;
	return &mr.release()->public_mr;
}

ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access) {
	return reg_mr_iova2(pd, address, length, iova, static_cast<unsigned>(access));
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
	return reg_mr_iova2(pd, address, length, reinterpret_cast<std::uint64_t>(address), static_cast<unsigned>(access));
}

namespace {

// True if each attribute that `flags` changes has an allowed value (ibv_rereg_mr(3)).
bool rereg_allowed(int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
	constexpr int known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
	if (flags == 0 || flags & ~known) return false;
	if ((flags & IBV_REREG_MR_CHANGE_PD) && !pd) return false;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!address || !length)) return false;
	return !(flags & IBV_REREG_MR_CHANGE_ACCESS) || access_allowed(static_cast<unsigned>(access));
}

}  // namespace

int rereg_mr(ibv_mr* public_mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
	if (!rereg_allowed(flags, pd, address, length, access)) {
		log::refuse(EINVAL, "ibv_rereg_mr: flags 0x%x are unknown or empty, or their values are not allowed", flags);
		return IBV_REREG_MR_ERR_INPUT;
	}
	SoftMr& mr = SoftMr::of(public_mr);
	const bool translation = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	ibv_mr& m = mr.public_mr;
	ibv_pd* new_pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : m.pd;
	void* new_address = translation ? address : m.addr;
	const std::size_t new_length = translation ? length : m.length;
	const std::uint64_t new_iova = translation ? reinterpret_cast<std::uint64_t>(address) : mr.iova;
	const unsigned new_access = flags & IBV_REREG_MR_CHANGE_ACCESS ? static_cast<unsigned>(access) : mr.access;
	const auto new_begin = reinterpret_cast<std::uint64_t>(new_address);
	if (const auto missing = unmapped(new_begin, new_length, new_access)) {
		refuse_unmapped("ibv_rereg_mr", new_begin, new_length, *missing);
		return IBV_REREG_MR_ERR_INPUT;
	}
	auto pinned = pin(new_begin, new_length, new_access);
	if (!pinned) {
		refuse_pinned("ibv_rereg_mr", new_length);
		return IBV_REREG_MR_ERR_INPUT;
	}
	const bool done = SoftContext::of(m.context).engine->control([&](adapter::ChannelAdapter& adapter) {
		transport::Context& context = adapter.context();
		if (!context.reregister(m.rkey, registration(new_pd, new_address, new_length, new_iova, new_access)))
			return false;
		// From here on no response shares the old memory; the new file is looked up outside of the
		// engine's lock.
		unshare(context.shared, mr);
		return true;
	});
	if (!done) {
		log::refuse(EBUSY, "ibv_rereg_mr: a memory window is bound to the region");
		return IBV_REREG_MR_ERR_CMD;
	}
	await_peers_of_region(*SoftContext::of(m.context).engine, mr);
	--SoftPd::of(m.pd).users;
	++SoftPd::of(new_pd).users;
	mr.pinned = std::move(*pinned);
	m.pd = new_pd;
	m.addr = new_address;
	m.length = new_length;
	mr.iova = new_iova;
	mr.access = new_access;
	// The registration has changed, so nothing may fail any more.
	if (!engine::attempt([&] { mr.backing = backing_of(new_address, new_length, new_access); })) mr.backing.reset();
	SoftContext::of(m.context).engine->control([&](adapter::ChannelAdapter& adapter) {
		share(adapter.context().shared, mr);
		publish(adapter.context(), mr);
	});
	return 0;
}

int dereg_mr(ibv_mr* mr) {
	const bool done = SoftContext::of(mr->context).engine->control([&](adapter::ChannelAdapter& adapter) {
		transport::Context& context = adapter.context();
		if (!context.deregister(mr->rkey)) return false;
		unshare(context.shared, SoftMr::of(mr));
		return true;
	});
	if (!done) return log::refuse(EBUSY, "ibv_dereg_mr: a memory window is bound to the region");
	await_peers_of_region(*SoftContext::of(mr->context).engine, SoftMr::of(mr));
	--SoftPd::of(mr->pd).users;
	dispose(SoftMr::of(mr));
	return 0;
}

namespace {

// 0 and the virtual address of the range, or an errno value of ibv_advise_mr(3).
struct Advised {
	int error = 0;
	std::uint64_t begin = 0;
};

Advised find_advised(memory::KeyTable& keys, ibv_pd* pd, const ibv_sge& sge, bool writes) {
	const struct {
		std::uint32_t protection_domain;
		memory::Accessor accessor() const { return {protection_domain, 0}; }
	} owner{SoftPd::of(pd).number};
	const auto resolve = [&](int access) {
		memory::RegionCache none;
		return keys.resolve(
			none, sge.lkey, sge.addr, sge.length, static_cast<std::uint8_t>(memory::local_use | access), owner);
	};
	const std::byte* const begin = resolve(0);
	if (!begin)
		return {log::refuse(EFAULT, "ibv_advise_mr: lkey 0x%x does not allow this use of %u bytes at 0x%llx", sge.lkey,
			sge.length, static_cast<unsigned long long>(sge.addr))};
	if (!resolve(memory::on_demand))
		return {log::refuse(
			EINVAL, "ibv_advise_mr: the region of lkey 0x%x was registered without IBV_ACCESS_ON_DEMAND", sge.lkey)};
	if (writes && !resolve(memory::local_write))
		return {log::refuse(EPERM,
			"ibv_advise_mr: IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, and the region of lkey 0x%x was registered without "
			"IBV_ACCESS_LOCAL_WRITE",
			sge.lkey)};
	return {0, reinterpret_cast<std::uint64_t>(begin)};
}

}  // namespace

// Registration pins nothing, so there is nothing to prefetch. The call only checks that the ranges
// may be used. Without IBV_ADVISE_MR_FLAG_FLUSH a kernel pages in later, and reports no failure.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list, std::uint32_t count) {
	if (!device_limits().paging)
		return refuse_by_profile(EOPNOTSUPP, "ibv_advise_mr: the device has no on-demand paging");
	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return log::refuse(EOPNOTSUPP, "ibv_advise_mr: advice %d is not supported", static_cast<int>(advice));
	if (flags & ~static_cast<std::uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH))
		return log::refuse(EINVAL, "ibv_advise_mr: flags 0x%x are unknown", flags);
	const bool faults = flags & IBV_ADVISE_MR_FLAG_FLUSH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	for (const ibv_sge& sge : std::span(list, count)) {
		const Advised found = SoftContext::of(pd->context).engine->control([&](adapter::ChannelAdapter& adapter) {
			return find_advised(adapter.context().keys, pd, sge, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
		});
		if (found.error) return found.error;
		const KeptErrno kept;
		const auto missing = faults ? memory::first_unmapped(found.begin, found.begin + sge.length) : std::nullopt;
		if (missing) return refuse_unmapped("ibv_advise_mr", found.begin, sge.length, *missing);
	}
	return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
	if (!device_limits().windows)
		return refuse_by_profile(EOPNOTSUPP, "ibv_alloc_mw: the device has no memory windows"), nullptr;
	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return log::refuse(EINVAL, "ibv_alloc_mw: type %d is neither 1 nor 2", static_cast<int>(type)), nullptr;
	auto mw = std::make_unique<SoftMw>();
	mw->public_mw.context = pd->context;
	mw->public_mw.pd = pd;
	mw->public_mw.type = type;
	mw->public_mw.rkey = mw->public_mw.handle =
		SoftContext::of(pd->context).engine->control([&](adapter::ChannelAdapter& adapter) {
			return adapter.context().keys.allocate_window(SoftPd::of(pd).number);
		});
	++SoftPd::of(pd).users;
	return &mw.release()->public_mw;
}

int dealloc_mw(ibv_mw* mw) {
	SoftContext::of(mw->context).engine->control([&](adapter::ChannelAdapter& adapter) {
		// The program chooses the low 8 bits of a type-2 window's rkey; the table finds the window
		// by its index, which the handle has.
		return adapter.context().deallocate_window(mw->handle);
	});
	--SoftPd::of(mw->pd).users;
	delete &SoftMw::of(mw);
	return 0;
}

// IBA 10.6.7: for a type-1 window, the verb posts the bind request itself, and the window has its
// new rkey when the call returns.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
	if (mw->type != IBV_MW_TYPE_1)
		return log::refuse(EINVAL, "ibv_bind_mw: the window is of type 2, which IBV_WR_BIND_MW binds");
	ibv_send_wr wr{}, *bad;
	wr.wr_id = bind->wr_id;
	wr.opcode = IBV_WR_BIND_MW;
	wr.send_flags = bind->send_flags;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	if (const int error = post_send(qp, &wr, &bad)) return error;
	mw->rkey = wr.bind_mw.rkey;
	return 0;
}

}  // namespace verbena::verbs
