// Judges whether the rows of a table can be true. The same rules apply to our rows and to published
// ones (`verbena check`).
//
// invalid: the row cannot be true.
// - gib is not mops * msg / 2^30, even within the rounding of the printed digits.
// - The row claims that UD messages larger than the MTU were delivered (the row's MTU, or 4096, the
//   largest of InfiniBand). A UD message has one packet (IBA 9.8.3), so such a send emits nothing.
// - Nothing was delivered, or RC lost or duplicated messages.
// - The receiver's counts do not add up: delivered + lost = posted, completed <= posted, and the
//   median lies in its interval.
// suspect: the row needs an explanation.
// - UD moves over 2 % more bytes a second than the plateau that RC reaches at the same window, so
//   more than the link seems to carry. RC has a plateau if its two largest sizes differ by less
//   than 10 %. The software device (vb_*) has no link, so there the rule applies only to rows whose
//   receiver did not count.
// - Little's law: rate * mean latency is the mean number in flight, which is at most the window. A
//   median of non-negative values is at most twice their mean, so mops * p50_us > 2 * window is
//   possible only if the sampled latencies were not typical.
// - More than 1 % of the messages were lost. The sender was faster than the receiver, so the rate
//   is no throughput.
// n/a: the row claims no number and is kept as it is.
//
// Threads: pure functions.
// Invariants: a reason that a row already has, from its measurement, is kept. So is its verdict if
//   that is worse than the one found here.
#pragma once

#include <span>

#include "bench/row.h"

namespace verbena::bench {

// Sets validity and reason of every row. `rows` is a whole table, because some rules compare a row
// with others.
void judge(std::span<Row> rows);

}  // namespace verbena::bench
