// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/context.h"

#include <algorithm>

#include "lib/rpc/server_connection.h"

namespace verbena::rpc {
namespace {

thread_local context_info_t* running = nullptr;

}  // namespace

context_info_t* get_context() { return running; }
context_info_t* swap_context(context_info_t* with) { return std::exchange(running, with); }

context_info_t::context_info_t(
	ServerConnection& connection, std::string_view function, const Frame& frame, Arrived* arrived)
	: connection_(&connection),
	  function_(function),
	  sequence_(frame.header.sequence),
	  deadline_(frame.header.patience_us == 0
			  ? never
			  : connection.home().loop().now() + Nanoseconds{frame.header.patience_us} * 1000),
	  attachment_(frame.attachment),
	  arrived_(arrived) {}

std::string_view context_info_t::get_request_attachment() const {
	return {reinterpret_cast<const char*>(attachment_.data()), attachment_.size()};
}

void context_info_t::set_response_attachment(std::string_view bytes) {
	const auto span = std::as_bytes(std::span(bytes));
	const bool points_into_message = (arrived_ != nullptr || share_) && !bytes.empty() &&
		span.data() >= attachment_.data() && span.data() + span.size() <= attachment_.data() + attachment_.size();
	if (!points_into_message) return set_response_attachment(std::string(bytes));
	if (arrived_ != nullptr) {
		MessageShare share = arrived_->share();
		response_ = {.bytes = arrived_->kept(span), .owner = std::move(share)};
	} else {
		response_ = {.bytes = span, .owner = share_};
	}
}

bool context_info_t::has_closed() const { return connection_->closed(); }
context_info_t::~context_info_t() {
	if (closes_) connection_->close();
}
std::uint64_t context_info_t::get_connection_id() const { return connection_->id(); }
const std::string& context_info_t::get_remote_endpoint() const { return connection_->path().peer; }
std::string_view context_info_t::get_transport() const { return connection_->path().transport; }
std::any& context_info_t::tag() { return connection_->tag(); }
channel::MemoryPool* context_info_t::memory() const { return connection_->memory(); }

AsyncCall::AsyncCall(std::shared_ptr<ServerConnection> connection, std::string_view function, const Frame& frame)
	: connection_(std::move(connection)), home_(connection_->home()), info_(*connection_, function, frame, nullptr) {}

void AsyncCall::copy(const Frame& frame) {
	auto* const bytes = reinterpret_cast<std::byte*>(this + 1);
	std::byte* const end = std::ranges::copy(frame.body, bytes).out;
	body_ = {bytes, end};
	info_.attachment_ = {end, std::ranges::copy(frame.attachment, end).out};
}

void AsyncCall::share(const Frame& frame, Arrived& arrived) {
	info_.share_ = arrived.share();
	body_ = arrived.kept(frame.body);
	info_.attachment_ = arrived.kept(frame.attachment);
}

std::shared_ptr<AsyncCall> AsyncCall::make(
	std::shared_ptr<ServerConnection> connection, std::string_view function, const Frame& frame, Arrived& arrived) {
	const auto at_home = [](AsyncCall* call) { call->home_.run([call] { delete call; }); };
	const std::size_t size = frame.body.size() + frame.attachment.size(), whole = arrived.bytes().size();
	const bool copies = worth_copying(size, whole);
	const Behind behind{copies ? size : 0};
	std::shared_ptr<AsyncCall> call(new (behind) AsyncCall(std::move(connection), function, frame), at_home);
	if (copies) call->copy(frame);
	else call->share(frame, arrived);
	call->hold(sizeof(AsyncCall) + (copies ? size : whole));
	return call;
}

AsyncCall::~AsyncCall() {
	// All references are gone and there was no answer: without one the caller would time out.
	if (!answered_.load(std::memory_order_acquire))
		connection_->respond(info_, rpc_error(errc::rpc_throw_exception, "the function ended without a response"));
	connection_->end_call(*this);
}

void AsyncCall::hold(std::size_t bytes) {
	held_ += bytes;
	connection_->held_.take(bytes);
}

void AsyncCall::give_up(const rpc_error& why) {
	info_.cancelled_.store(true, std::memory_order_relaxed);
	if (stream_) stream_->end(why);
}

void AsyncCall::answer(Buffer body) {
	if (answered_.exchange(true, std::memory_order_acq_rel)) return;
	home_.run([self = shared_from_this(), body = std::move(body)] {
		self->connection_->respond(
			self->info_, errc::ok, [&](Buffer& into) { into.insert(into.end(), body.begin(), body.end()); });
	});
}

void AsyncCall::answer(const rpc_error& error) {
	if (answered_.exchange(true, std::memory_order_acq_rel)) return;
	home_.run([self = shared_from_this(), error] { self->connection_->respond(self->info_, error); });
}

}  // namespace verbena::rpc
