// Whether a row can be true. One list of rules for our rows and for published ones (`verbena check`).
//
//   invalid: it cannot be true
//     - gib is not mops * msg / 2^30, beyond the rounding of the printed digits
//     - a UD message larger than the MTU (the row's, or 4096, the largest that InfiniBand has) is claimed as delivered:
//     the
//       specification has such a send emit nothing and report no error
//     - nothing was delivered; RC lost or duplicated messages
//     - the receiver's account does not add up: delivered + lost = posted, completed <= posted, interval around the
//     median
//   suspect: it needs an explanation
//     - UD moves more bytes a second (by > 2 %) than the plateau that RC reaches at the same window, so above what the
//     link seems to
//       carry. RC has a plateau when its two largest sizes differ by < 10 %. Our own software device (vb_*) has no
//       link, so there the rule asks only rows whose receiver did not count.
//     - Little's law: rate * latency is what is in flight, at most the window. A median is at most twice the mean, so
//       mops * p50_us > 2 * window cannot be, except by an unlucky sample.
//     - more than 1 % of the messages were lost: the sender was not held to what the receiver could take, so the rate
//     is no throughput
//   n/a: no number was claimed; kept as it is
//
// A reason that a row brings with it (what its measurement noticed) is kept, and so is a verdict that is worse than
// ours.
#pragma once

#include <span>

#include "bench/row.h"

namespace verbena::bench {

// Fills validity and reason of every row. The rows are one table: a row is judged in the company of the others.
void judge(std::span<Row> rows);

}  // namespace verbena::bench
