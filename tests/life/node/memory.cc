// SPDX-License-Identifier: Apache-2.0
// The commands of memory.
#include <sys/mman.h>

#include <atomic>

#include "commands.h"

Region map_region(ibv_pd* pd, std::size_t bytes) {
	void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return {at, bytes, demand(ibv_reg_mr(pd, at, bytes, access))};
}

namespace {

std::uint64_t load(std::size_t region, std::size_t offset) {
	return std::atomic_ref(
		*reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(regions.at(region).address) + offset))
		.load();
}

}  // namespace

bool obey_memory(const std::string& word, std::istream& in, std::ostream& out) {
	if (word == "region") {
		regions.push_back(map_region(current().pd, next<std::size_t>(in)));
		out << ' ' << regions.size() - 1 << ' ' << reinterpret_cast<std::uint64_t>(regions.back().address) << ' '
			<< regions.back().mr->rkey;
	} else if (word == "unmap") {
		Region& r = regions.at(next<std::size_t>(in));
		demand(munmap(r.address, r.bytes));
	} else if (word == "remap") {
		Region& r = regions.at(next<std::size_t>(in));
		if (mmap(r.address, r.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
				0) != r.address)
			throw Failure{errno};
	} else if (word == "load") {
		const auto region = next<std::size_t>(in);
		out << ' ' << load(region, next<std::size_t>(in));
	} else if (word == "await") {
		const auto region = next<std::size_t>(in), offset = next<std::size_t>(in);
		const auto value = next<std::uint64_t>(in);
		const auto end = Clock::now() + std::chrono::milliseconds(next<int>(in));
		while (load(region, offset) != value)
			if (Clock::now() > end) throw Failure{ETIMEDOUT};
	} else {
		return false;
	}
	return true;
}
