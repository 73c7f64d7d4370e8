// SPDX-License-Identifier: Apache-2.0
// Fuzzes the client's reading of a server's published memory: an accepted value lies inside the
// bytes that were read, and its checksum is right. The first byte of the input chooses whether the
// checksums are made right, so that the fuzzer also reaches the checks after them.
#include "base/check.h"
#include "lib/kv/index_format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	using namespace verbena;
	using namespace verbena::kv;
	if (size < 1 + line_bytes) return 0;
	const bool mended = (data[0] & 1) != 0;
	std::vector<std::byte> area(size - 1);
	std::memcpy(area.data(), data + 1, area.size());
	LineHeader header;
	std::memcpy(&header, area.data(), sizeof header);
	const std::string_view key = "key";
	const std::uint64_t hash = index_hash(key, 7);
	if (mended) {
		header.hash = hash;
		header.key_length = static_cast<std::uint16_t>(key.size());
		if (header.offset == 0 && header.record_bytes() <= inside_max)
			header.content = content_checksum(area.data() + sizeof header, header.record_bytes(), header.version);
		header.checksum = header.own_checksum();
		std::memcpy(area.data(), &header, sizeof header);
	}
	const SeenLine found = read_line(Bytes(area).first(line_bytes), key, hash, area.size());
	if (found.seen == Seen::inside)
		check(found.value.data() >= area.data() && found.value.data() + found.value.size() <= area.data() + line_bytes,
			"an inline value lies inside its line");
	if (found.seen == Seen::outside) {
		check(found.header.offset + std::uint64_t{found.header.record_bytes()} <= area.size(),
			"a record lies inside the published area");
		(void)read_record(Bytes(area).subspan(found.header.offset, found.header.record_bytes()), found.header, key);
	}
	return 0;
}
