// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/rival.h"

#include <gtest/gtest.h>

namespace verbena::kvbench {
namespace {

TEST(KvRival, ThatWasNotStartedDoesNotAnswer) {
	const bench::RivalServer server("redis");
	for (const Transport transport : {Transport::unix_socket, Transport::tcp})
		EXPECT_STREQ(
			run_rival(server, {.system = System::redis, .transport = transport}, 1).failure, "redis does not answer");
}

}  // namespace
}  // namespace verbena::kvbench
