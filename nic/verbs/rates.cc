// SPDX-License-Identifier: Apache-2.0
// The exports that convert between the rates of a static-rate field, in two units.
#include <infiniband/verbs.h>

namespace {

struct Rate {
	ibv_rate rate;
	int multiple;  // in units of 2.5 Gbit/s; 0 where rdma-core has no whole multiple
	int mbps;  // the link's rate, as rdma-core has it
};

constexpr Rate rates[] = {
	{IBV_RATE_2_5_GBPS, 1, 2500},
	{IBV_RATE_5_GBPS, 2, 5000},
	{IBV_RATE_10_GBPS, 4, 10000},
	{IBV_RATE_20_GBPS, 8, 20000},
	{IBV_RATE_30_GBPS, 12, 30000},
	{IBV_RATE_40_GBPS, 16, 40000},
	{IBV_RATE_60_GBPS, 24, 60000},
	{IBV_RATE_80_GBPS, 32, 80000},
	{IBV_RATE_120_GBPS, 48, 120000},
	{IBV_RATE_14_GBPS, 0, 14062},
	{IBV_RATE_56_GBPS, 0, 56250},
	{IBV_RATE_112_GBPS, 0, 112500},
	{IBV_RATE_168_GBPS, 0, 168750},
	{IBV_RATE_25_GBPS, 0, 25781},
	{IBV_RATE_100_GBPS, 0, 103125},
	{IBV_RATE_200_GBPS, 0, 206250},
	{IBV_RATE_300_GBPS, 0, 309375},
	{IBV_RATE_28_GBPS, 11, 28125},
	{IBV_RATE_50_GBPS, 20, 53125},
	{IBV_RATE_400_GBPS, 160, 425000},
	{IBV_RATE_600_GBPS, 240, 637500},
	{IBV_RATE_800_GBPS, 320, 850000},
	{IBV_RATE_1200_GBPS, 480, 1275000},
};

// The member `to` of the row whose member `from` has this value; 0 is no value of either.
template <auto from, auto to, class Value, class Result> Result convert(Value value, Result if_unknown) {
	for (const Rate& row : rates)
		if (row.*from && row.*to && row.*from == value) return row.*to;
	return if_unknown;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int ibv_rate_to_mult(ibv_rate rate) { return convert<&Rate::rate, &Rate::multiple>(rate, -1); }
ibv_rate mult_to_ibv_rate(int multiple) { return convert<&Rate::multiple, &Rate::rate>(multiple, IBV_RATE_MAX); }
int ibv_rate_to_mbps(ibv_rate rate) { return convert<&Rate::rate, &Rate::mbps>(rate, -1); }
ibv_rate mbps_to_ibv_rate(int mbps) { return convert<&Rate::mbps, &Rate::rate>(mbps, IBV_RATE_MAX); }

#pragma GCC visibility pop
}
