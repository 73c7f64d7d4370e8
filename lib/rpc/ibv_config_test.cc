// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "lib/rpc/options.h"

namespace verbena::rpc {
namespace {

lib::GidEntry gid(std::uint32_t index, const char* text, lib::GidType type) {
	return {.index = index, .gid = *lib::parse_gid(text), .type = type, .interface = "eth0"};
}

TEST(IbvConfig, ThePublishedRulesChooseIndex3OfSixGids) {
	// RoCE v2 before v1, global before link-local before loopback.
	using enum lib::GidType;
	const lib::DeviceInfo device{.name = "mlx5_0",
		.ports = {{.state = IBV_PORT_ACTIVE,
			.active_mtu_bytes = 4096,
			.gids = {gid(0, "fe80::ac0:ebff:fe3d:ca54", roce_v1), gid(1, "fe80::ac0:ebff:fe3d:ca54", roce_v2),
				gid(2, "::ffff:10.110.0.33", roce_v1), gid(3, "::ffff:10.110.0.33", roce_v2), gid(4, "::1", roce_v1),
				gid(5, "::1", roce_v2)}}}};
	const ibv_config config;
	const auto choice = lib::choose(std::span(&device, 1), {.device = config.device, .gid_index = config.gid_index});
	ASSERT_TRUE(choice) << choice.error();
	EXPECT_EQ(choice->gid_index, 3u);
	EXPECT_EQ(lib::choose(std::span(&device, 1), {.gid_index = 1})->gid_index, 1u) << "unless one is named";
}

TEST(IbvConfig, DefaultsAreThePublishedOnes) {
	const ibv_config config;
	EXPECT_EQ(config.buffer_pool_config.buffer_size, 256u << 10);
	EXPECT_EQ(config.recv_buffer_cnt, 8u);
	EXPECT_EQ(config.rc()->offers_max * config.rc()->part_bytes, 4 * (256u << 10))
		<< "bytes under way, as in the published code";
	EXPECT_EQ(config.recv_mode, recv_mode_t::srq);
	EXPECT_EQ(config.qp_type, IBV_QPT_RC);
	EXPECT_EQ(config.cap.max_send_wr, 32u);
	EXPECT_EQ(config.cap.max_recv_wr, 32u);
	EXPECT_EQ(config.cap.max_send_sge, 3u);
	EXPECT_EQ(config.cap.max_recv_sge, 1u);
	EXPECT_EQ(config.cap.max_inline_data, 256u);
	EXPECT_EQ(config.watermark, channel::Watermark::wait);
	EXPECT_TRUE(config.device.empty());
	EXPECT_FALSE(config.gid_index);
	EXPECT_EQ(config.buffer_pool_config.max_memory_usage, 0xffffffffu);
}

TEST(IbvConfig, PerConnectionModePostsAndSendsBlocks) {
	const ibv_config config{.recv_mode = recv_mode_t::per_connection};
	const auto options = config.rc();
	ASSERT_TRUE(options) << options.error();
	EXPECT_EQ(options->receive_depth + channel::control_kinds, 8u);
	EXPECT_EQ(options->send_units_max, 2u) << "as in the published text, which gives 2.5 MiB for a connection";
	EXPECT_EQ(options->unit_bytes, 256u << 10);
	EXPECT_EQ(options->direct_depth, 0u) << "everything is SENDs, as published";
	EXPECT_EQ(options->units_max, 0xffffffffu / (256u << 10)) << "the watermark";
}

TEST(IbvConfig, TheWatermarkBoundsReceiveBuffersAndRegisteredMemory) {
	const ibv_config config{
		.watermark = channel::Watermark::close, .buffer_pool_config = {.max_memory_usage = 64 << 20}};
	const auto options = config.rc();
	EXPECT_EQ(options->memory.max, 64u << 20);
	EXPECT_LE(std::uint64_t{options->units_max} * options->unit_bytes, 64u << 20);
	EXPECT_EQ(options->watermark, channel::Watermark::close);
}

TEST(IbvConfig, WithoutALimitMemoryIsUnlimited) {
	const auto options = ibv_config{.buffer_pool_config = {.max_memory_usage = 0}}.rc();
	EXPECT_EQ(options->memory.max, std::numeric_limits<std::size_t>::max());
	EXPECT_EQ(options->units_max, channel::RcOptions{}.units_max);
}

TEST(IbvConfig, AGlobalIPv6AddressComesBeforeALinkLocalOne) {
	using enum lib::GidType;
	const lib::DeviceInfo device{.name = "mlx5_0",
		.ports = {{.state = IBV_PORT_ACTIVE,
			.active_mtu_bytes = 4096,
			.gids = {gid(0, "fe80::1", roce_v2), gid(1, "::1", roce_v2), gid(2, "2001:db8::1", roce_v1),
				gid(3, "2001:db8::1", roce_v2)}}}};
	EXPECT_EQ(lib::choose(std::span(&device, 1), {})->gid_index, 3u);
}

TEST(IbvConfig, AGidWithoutALocalInterfaceIsSkipped) {
	lib::GidEntry elsewhere = gid(0, "::ffff:10.110.0.33", lib::GidType::roce_v2);
	elsewhere.interface.clear();
	const lib::DeviceInfo device{.name = "mlx5_0",
		.ports = {{.state = IBV_PORT_ACTIVE,
			.active_mtu_bytes = 4096,
			.gids = {elsewhere, gid(1, "fe80::1", lib::GidType::roce_v2)}}}};
	EXPECT_EQ(lib::choose(std::span(&device, 1), {})->gid_index, 1u);
	EXPECT_EQ(lib::choose(std::span(&device, 1), {.gid_index = 0})->gid_index, 0u) << "unless it is named";
}

TEST(IbvConfig, UnsupportedValuesAreRefused) {
	EXPECT_NE((ibv_config{.qp_type = IBV_QPT_UD}.rc()).error().find("IBV_QPT_RC"), std::string::npos);
	EXPECT_FALSE((ibv_config{.buffer_pool_config = {.buffer_size = 100}}.rc()));
	EXPECT_FALSE((ibv_config{.recv_buffer_cnt = 2}.rc()));
	EXPECT_FALSE((ibv_config{.send_buffer_cnt = 0}.rc()));
}

}  // namespace
}  // namespace verbena::rpc
