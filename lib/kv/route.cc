// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/route.h"

#include "base/random.h"

namespace verbena::kv {
namespace {

// A server that has sent nothing for this long while an operation waited until its deadline is
// taken to hang.
constexpr Nanoseconds silence_max = 1'000'000'000;
// The pause before a request is sent again that a server was too busy to execute.
constexpr Nanoseconds busy_pause = 10'000'000;

}  // namespace

Route::Route(Owner& owner, Session& session, const ClientOptions& options, const RouterOptions& how, std::string name,
	Nanoseconds patience)
	: owner_(owner),
	  session_(session),
	  options_(options),
	  how_(how),
	  name_(std::move(name)),
	  id_(how.retry ? secure_random<std::uint64_t>() | 1 : 0) {
	keep_connected(patience);
}

Running Route::keep_connected(Nanoseconds patience) {
	while (!closing_ && !left_) {
		ClientOptions options = options_;
		options.id = id_;
		options.of_cluster = session_.members() != nullptr;
		auto connecting = session_.connect(options, name_, patience);
		auto opened = co_await std::move(connecting);
		Nanoseconds pause = 0;
		tried_ = true;
		if (opened) {
			++connects_;
			client_ = std::move(*opened);
			backoff_.connected(monotonic_now());
			submit_waiting();
			owner_.route_connected(*this);
			owner_.route_changed();
			if (left_) client_->close_when_done();
			if (closing_) client_->close();
			co_await client_->until_lost();
			reason_ = name_ + ": " + client_->why_lost();
			retire(std::move(client_));
			pause = backoff_.ended(monotonic_now());
		} else {
			reason_ = opened.error();
			owner_.route_changed();
			pause = backoff_.failed();
		}
		if (left_ && client_ == nullptr) break;
		co_await session_.loop().sleep_for(pause);
		patience = backoff_.patience();
	}
	if (!left_) co_return;
	while (auto* const call = static_cast<Call*>(waiting_.pop_front())) take_back(*call);
	ended_ = true;
	owner_.route_changed();
}

// Destroys the client once its channel has closed, and its callers have been resumed.
Running Route::retire(std::unique_ptr<Client> client) {
	++retiring_;
	retired_counters_ += client->counters();
	client->close();
	co_await client->channel().until_closed();
	co_await async::NextTurn(session_.loop());
	client.reset();
	--retiring_;
	session_.loop().resume_soon(until_retired_);
}

Route::~Route() {
	session_.loop().cancel(*this);
	session_.loop().cancel(sweeper_);
}

void Route::start(Call& call) {
	call.keeper_ = this;
	if (call.is_change()) {
		if (how_.retry) call.ordered_.order = ++last_order_;
		changes_.push_back(call.ordered_);
	} else {
		gets_.push_back(call.ordered_);
	}
	if (!sweeper_.scheduled()) session_.loop().schedule(sweeper_, call.deadline_);
	submit(call);
}

// Ends the calls whose deadlines have passed. All calls of a router have one timeout, so an older
// call has an earlier deadline. A call for which this does not hold has a timer of its own.
void Route::sweep() {
	Nanoseconds next = never;
	for (auto* const calls : {&changes_, &gets_}) {
		while (!calls->empty() && calls->front().call.deadline_ <= session_.loop().now()) expired(calls->front().call);
		if (!calls->empty()) next = std::min(next, calls->front().call.deadline_);
	}
	session_.loop().schedule(sweeper_, next);
}

// Sends the call, fails it if it may not be sent to this server, or lets it wait.
void Route::submit(Call& call) {
	if (client_ == nullptr || client_->lost()) return waiting_.push_back(call);
	const Hello& server = client_->server();
	if (!call.attempts_.may_send(server.identity, server.forgot != 0, session_.loop().now()))
		return call.finish(Error::lost, session_.loop());
	if (!changes_.empty()) call.settled_ = changes_.front().order;
	client_->start(call);
}

void Route::submit_waiting() {
	async::List<async::Waiter> now;
	now.splice(waiting_);
	while (auto* const call = static_cast<Call*>(now.pop_front())) {
		if (owner_.is_placed(*call, *this) || !call->attempts_.may_move()) submit(*call);
		else place_again(*call);
	}
}

// Another route takes the call, with an id of its own.
void Route::place_again(Call& call) {
	call.ordered_.unlink();
	call.ordered_.order = 0;
	owner_.place_again(call);
}

// The connection was lost, or the server was busy or is not that of the key.
void Route::take_back(Call& call) {
	call.submitted_ = false;
	call.client_ = nullptr;
	call.fetched_ = {};
	if (closing_ || (!how_.retry && !call.attempts_.not_executed()) || (left_ && !call.attempts_.may_move()))
		return call.finish(Error::lost, session_.loop());
	if (left_) return place_again(call);
	++retries_;
	waiting_.push_back(call);
	if (client_ != nullptr && !client_->lost() && !Timer::scheduled())
		session_.loop().schedule(*this, session_.loop().now() + busy_pause);
}

void Route::expired(Call& call) {
	const bool was_sent = call.submitted_ && client_ != nullptr && call.client_ == client_.get();
	const Nanoseconds now = session_.loop().now();
	const bool silent = was_sent && now - std::max(client_->heard(), call.attempts_.last_sent()) >= silence_max;
	if (call.client_ != nullptr) call.client_->forget(call);
	call.finish(call.attempts_.at_deadline(), session_.loop());
	if (silent) client_->give_up();
}

void Route::leave() {
	left_ = true;
	departed_ = session_.loop().now();
	if (client_ != nullptr) {
		client_->close_when_done();
		watch_departed();
		return;
	}
	while (auto* const call = static_cast<Call*>(waiting_.pop_front())) take_back(*call);
}

// A server that has left because it hangs answers nothing that it still has.
Running Route::watch_departed() {
	while (client_ != nullptr && !client_->lost()) {
		const Nanoseconds now = session_.loop().now(), heard = std::max(client_->heard(), departed_);
		if (now >= heard + silence_max) {
			client_->give_up();
			co_return;
		}
		co_await session_.loop().sleep_until(heard + silence_max);
	}
}

void Route::close() {
	closing_ = true;
	if (client_ != nullptr) client_->close();
	while (auto* const call = static_cast<Call*>(waiting_.pop_front())) take_back(*call);
}

async::Task<void> Route::until_closed() {
	while (client_ != nullptr || retiring_ > 0) co_await async::Park(until_retired_);
}

ClientCounters Route::counters() const {
	ClientCounters sum = retired_counters_;
	if (client_ != nullptr) sum += client_->counters();
	return sum;
}

}  // namespace verbena::kv
