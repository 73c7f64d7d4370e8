// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/dead_context.h"

#include <cerrno>

#include "base/log.h"

namespace verbena::verbs {
namespace {

template <class... Parameters> int gone(Parameters...) {
	return log::refuse(EIO, "a queue was used that was created before fork(), by the parent");
}
template <class Queue, class WorkRequest> int dead_post(Queue*, WorkRequest* request, WorkRequest** bad) {
	*bad = request;
	return gone();
}

}  // namespace

void fill_dead(verbs_context& v) {
	ibv_context_ops& ops = v.context.ops;
	ops.post_send = dead_post;
	ops.post_recv = dead_post;
	ops.post_srq_recv = dead_post;
	ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return gone(), -1; };
	ops.req_notify_cq = gone;
	ops.bind_mw = gone;
}

}  // namespace verbena::verbs
