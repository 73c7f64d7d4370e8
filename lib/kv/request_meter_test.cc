// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/request_meter.h"

#include <gtest/gtest.h>

namespace verbena::kv {
namespace {

TEST(RequestMeter, ARequestCountsByItsKindAndItsLastAnswer) {
	RequestMeter meter;
	RequestsUnderWay requests(meter);
	requests.begin(1, kind_of(Operation::get), 0);
	requests.begin(2, kind_of(Operation::set_write), 0);
	requests.begin(2, kind_of(Operation::written), 0);
	requests.end(1, Status::missing);
	requests.end(2, Status::place);
	requests.end(2, Status::good);
	requests.begin(1, kind_of(Operation::get), 0);
	requests.end(1, Status::remote);
	EXPECT_EQ(meter.count_of(RequestKind::get, Status::missing), 1u);
	EXPECT_EQ(meter.count_of(RequestKind::get, Status::good), 1u);
	EXPECT_EQ(meter.count_of(RequestKind::set, Status::good), 1u);
	EXPECT_EQ(meter.count_of(RequestKind::set, Status::place), 0u);
}

TEST(RequestMeter, AnAnswerToNoRequestCountsAsOther) {
	RequestMeter meter;
	RequestsUnderWay requests(meter);
	requests.end(0, Status::leaving);
	requests.begin(0, RequestKind::get, 0);
	requests.end(4096, Status::good);
	requests.end(0, Status::good);
	requests.end(0, Status::good);
	requests.end(~0u, Status::busy);
	EXPECT_EQ(meter.count_of(RequestKind::get, Status::good), 1u);
	EXPECT_EQ(meter.count_of(RequestKind::other, Status::good), 2u);
	EXPECT_EQ(meter.count_of(RequestKind::other, Status::busy), 1u);
	EXPECT_EQ(meter.count_of(RequestKind::other, Status::leaving), 0u);
}

TEST(RequestMeter, DurationsAreMeasuredOnlyIfWanted) {
	RequestMeter meter;
	RequestsUnderWay requests(meter);
	for (const bool timed : {false, true}) {
		meter.timed = timed;
		requests.begin(7, RequestKind::get, meter.arrival());
		requests.end(7, Status::good);
	}
	EXPECT_EQ(meter.count_of(RequestKind::get, Status::good), 2u);
	EXPECT_EQ(meter.durations[static_cast<std::size_t>(RequestKind::get)].count(), 1u);
}

}  // namespace
}  // namespace verbena::kv
