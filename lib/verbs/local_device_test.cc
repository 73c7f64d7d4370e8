// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/local_device.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <string>

namespace verbena::lib {
namespace {

sockaddr_storage address(const char* text) {
	sockaddr_storage storage{};
	auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
	auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
	const bool is_v6 = std::string(text).find(':') != std::string::npos;
	storage.ss_family = is_v6 ? AF_INET6 : AF_INET;
	v4->sin_port = htons(7471);  // at the same place in both
	EXPECT_EQ(inet_pton(storage.ss_family, text, is_v6 ? static_cast<void*>(&v6->sin6_addr) : &v4->sin_addr), 1);
	return storage;
}

const sockaddr* pointer(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr*>(&storage); }

TEST(LocalDevice, IsNoneAtAWildcardALoopbackOrAForeignAddress) {
	for (const char* const text : {"0.0.0.0", "::", "127.0.0.1", "::1", "198.51.100.77", "2001:db8::77"})
		EXPECT_EQ(device_at(pointer(address(text))), "") << text;
}

TEST(LocalDevice, IsNoneTowardsNoPeerAndTowardsTheLoopback) {
	EXPECT_EQ(device_towards({}), "");
	const sockaddr_storage loopback = address("127.0.0.1");
	EXPECT_EQ(device_towards(std::array{pointer(loopback)}), "");
}

}  // namespace
}  // namespace verbena::lib
