// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/kind.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

std::string kind(Environment environment, const char* device = "") {
	const auto found = kind_of({.environment = std::move(environment), .rows = {{{"device", device}}}});
	return found ? std::string(*found) : found.error();
}

TEST(Kind, IsThatOfTheEnvironmentInAnyCase) {
	EXPECT_EQ(kind({{"kind", "hardware"}}, "mlx5_0"), "hardware");
	EXPECT_EQ(kind({{"Kind", "Hardware"}, {"Device", "mlx5_0"}}), "hardware");
	EXPECT_EQ(kind({{"kind", "SOFTWARE"}}), "software");
	EXPECT_EQ(kind({}), "unknown");
}

TEST(Kind, FollowsFromNoOtherKeyOfTheEnvironment) {
	EXPECT_EQ(kind({{"nic", "hardware"}}), "unknown");
	EXPECT_EQ(kind({{"Device kind", "Hardware"}}), "unknown");
	EXPECT_EQ(kind({{"nic", "hardware"}, {"kind", "software"}}), "software");
}

TEST(Kind, OfASoftwareDeviceIsSoftwareWhateverTheEnvironmentSays) {
	for (const char* device : {"vb_lo", "VB_LO", "mlx5_0, vb_lo", "rxe0", "siw_eth0"}) {
		EXPECT_EQ(kind({{"kind", "hardware"}, {"device", device}}), "software") << device;
		EXPECT_EQ(kind({{"kind", "hardware"}}, device), "software") << device;
	}
	EXPECT_EQ(kind({{"kind", "hardware"}, {"device", "mlx5_vb_0"}}, "mlx5_0"), "hardware");
}

// Other characters than blanks and commas hid the name.
TEST(Kind, OfASoftwareDeviceIsFoundBesideAnyOtherCharacter) {
	for (const char* device : {"mlx5_0+vb_lo", "mlx5_0|vb_lo", "mlx5_0=vb_lo", "mlx5_0.vb_lo", "{vb_lo}", "<vb_lo>",
			 "mlx5_0\u00a0vb_lo", "\u2060vb_lo"})
		EXPECT_EQ(kind({{"kind", "hardware"}}, device), "software") << device;
}

std::string reason_of_hardware(const Environment& more, const char* device) {
	Environment environment{{"kind", "hardware"}};
	environment.insert(environment.end(), more.begin(), more.end());
	std::vector<Findings> findings(1);
	examine_devices({.environment = environment, .rows = {{{"device", device}}}}, findings);
	return findings[0].verdict().reason;
}

TEST(Kind, ANameThatCannotBeReadIsThatOfNoDevice) {
	for (const char* device : {"vb\u200b_lo", "\uff56b_lo", "mlx5_0\x7f", "mlx5\x1f"}) {
		const std::string reason = fmt::format("'{}' is no name of a device", device);
		EXPECT_EQ(reason_of_hardware({}, device), reason + ", but the environment says hardware");
		EXPECT_EQ(reason_of_hardware({{"Device", device}}, ""), reason + ", but the environment says hardware");
		EXPECT_EQ(reason_of_hardware({{"peer_device", device}, {"peer_kind", "hardware"}}, "mlx5_0"),
			reason + ", but the environment's peer_kind says hardware");
	}
	EXPECT_EQ(reason_of_hardware({}, "mlx5_0 ~"), "");
}

// The table of a software device was given the name of another one, and kept its GID.
TEST(Kind, HardwareHasNotTheGidAtWhichAHostReachesItself) {
	const auto with = [](const char* gid) { return reason_of_hardware({{"gid", gid}}, "mlx5_0"); };
	EXPECT_EQ(with("0000:0000:0000:0000:0000:ffff:7f00:0001"),
		"the GID 0000:0000:0000:0000:0000:ffff:7f00:0001 is the host's own, but the environment says hardware");
	EXPECT_NE(with("0000:0000:0000:0000:0000:FFFF:7F01:0203"), "");
	EXPECT_NE(with("0000:0000:0000:0000:0000:0000:0000:0001"), "");
	EXPECT_EQ(with("0000:0000:0000:0000:0000:ffff:0a00:0001"), "");
	EXPECT_EQ(with("fe80:0000:0000:0000:0000:0000:0000:0001"), "");
	EXPECT_EQ(with(""), "");
}

TEST(Kind, WithAnUnknownValueIsRefused) {
	EXPECT_EQ(kind({{"kind", "virtual"}}), "kind 'virtual' in the environment is neither hardware nor software");
	EXPECT_EQ(
		kind({{"peer_kind", "virtual"}}), "peer_kind 'virtual' in the environment is neither hardware nor software");
}

// `bench kv --transport tcp` wrote an empty kind, and its table was refused.
TEST(Kind, ThatIsEmptyIsNotSaid) {
	EXPECT_EQ(kind({{"kind", ""}, {"peer_kind", ""}}), "unknown");
	EXPECT_EQ(kind({{"kind", ""}}, "vb_lo"), "software");
}

TEST(Kind, HardwareWithoutAnyDeviceIsRefused) {
	const char* refusal = "the environment says hardware, but the table names no device";
	EXPECT_EQ(kind({{"kind", "hardware"}}), refusal);
	EXPECT_EQ(kind({{"kind", "hardware"}, {"device", ""}, {"peer_device", "mlx5_0"}}), refusal);
}

// A table was hardware although its peer was a software device.
TEST(Kind, IsSoftwareIfThePeerIs) {
	const auto with = [](const char* name, const char* value) {
		return kind({{"kind", "hardware"}, {"device", "mlx5_0"}, {name, value}});
	};
	EXPECT_EQ(with("peer_device", "vb_lo"), "software");
	EXPECT_EQ(with("peer_kind", "Software"), "software");
	EXPECT_EQ(with("peer_device", "mlx5_1"), "hardware");
}

TEST(Kind, EachRowIsInvalidIfAPeerOfSoftwareIsCalledHardware) {
	const auto found = [](const char* said) {
		std::vector<Findings> findings(1);
		const Environment environment{{"peer_device", "vb_lo"}, {"peer_kind", said}};
		examine_devices({.environment = environment, .rows = {{{"mops", 1}}}}, findings);
		return findings[0].verdict().reason;
	};
	EXPECT_EQ(found("software"), "");
	EXPECT_EQ(found("Hardware"), "vb_lo is a software device, but the environment's peer_kind says hardware");
}

TEST(Kind, ARowOfASoftwareDeviceIsInvalidIfTheEnvironmentSaysHardware) {
	const auto verdicts = [](const char* said) {
		std::vector<Findings> found(2);
		found[1].suspect("fast");
		examine_devices(
			{.environment = {{"kind", said}}, .rows = {{{"device", "mlx5_0"}}, {{"device", "Vb_lo"}}}}, found);
		return std::vector{found[0].verdict(), found[1].verdict()};
	};
	EXPECT_EQ(verdicts("Hardware")[0].validity, Validity::valid);
	EXPECT_EQ(verdicts("Hardware")[1].validity, Validity::invalid);
	EXPECT_EQ(verdicts("Hardware")[1].reason, "fast; Vb_lo is a software device, but the environment says hardware");
	EXPECT_EQ(verdicts("software")[1].validity, Validity::suspect);
}

TEST(Kind, EachRowIsInvalidIfTheEnvironmentCallsASoftwareDeviceHardware) {
	const auto found = [](const char* device) {
		std::vector<Findings> findings(1);
		examine_devices({.environment = {{"kind", "hardware"}, {"device", device}}, .rows = {{{"mops", 1}}}}, findings);
		return findings[0].verdict().reason;
	};
	EXPECT_EQ(found("mlx5_0"), "");
	EXPECT_EQ(found("VB_lo"), "VB_lo is a software device, but the environment says hardware");
	EXPECT_EQ(found("vb_lo"), "vb_lo is a software device, but the environment says hardware");
}

}  // namespace
}  // namespace verbena::bench
