// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/unsupported_ops.h"

#include <cerrno>

#include "base/log.h"

namespace verbena::verbs {
namespace {

template <typename... Parameters> int unsupported(Parameters...) {
	return log::refuse(EOPNOTSUPP, "a verb was called that this NIC does not support (docs/verbs-support.md)");
}

template <typename WorkRequest, typename Queue>
int unsupported_post(Queue*, WorkRequest* request, WorkRequest** bad_request) {
	*bad_request = request;
	return unsupported();
}

int unsupported_poll_cq(ibv_cq*, int, ibv_wc*) {
	unsupported();
	return -1;  // a positive value would be a number of completions
}

}  // namespace

void fill_unsupported(verbs_context* context) {
	context->close_xrcd = unsupported;

	ibv_context_ops& ops = context->context.ops;
	ops.bind_mw = unsupported;
	ops.dealloc_mw = unsupported;
	ops.poll_cq = unsupported_poll_cq;
	ops.req_notify_cq = unsupported;
	ops.post_srq_recv = unsupported_post;
	ops.post_send = unsupported_post;
	ops.post_recv = unsupported_post;

	// Inline functions of old verbs.h call these two. No code calls the other _compat entries.
	ops._compat_query_device = unsupported;
	ops._compat_query_port = unsupported;
}

}  // namespace verbena::verbs
