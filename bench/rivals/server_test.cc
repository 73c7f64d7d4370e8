// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace verbena::bench {
namespace {

TEST(RivalServer, AProgramThatEndsBeforeItListensIsAnErrorAndItsFolderIsRemoved) {
	std::string folder;
	{
		RivalServer server("nothing");
		folder = server.folder();
		EXPECT_TRUE(std::filesystem::is_directory(folder));
		EXPECT_NE(server.port(), 0);
		EXPECT_EQ(server.connect(RivalServer::At::unix_socket), -1);
		EXPECT_EQ(server.start({"false"}, RivalServer::At::unix_socket).error(), "nothing did not start");
		EXPECT_EQ(server.start({"no-such-program"}, RivalServer::At::tcp).error(), "nothing did not start");
	}
	EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(RivalServer, AProgramIsOnThePathOrNot) {
	EXPECT_TRUE(is_on_path("sh"));
	EXPECT_FALSE(is_on_path("no-such-program"));
}

}  // namespace
}  // namespace verbena::bench
