#include "bench/rcud/fan_in_receiver.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/rcud/completions.h"

namespace verbena::rcud {
namespace {

constexpr std::uint64_t credit_signal_every = 16;
constexpr std::uint32_t words_per_queue = 64;  // credits under way on one queue pair
constexpr int credit_shift = 48;  // wr_id of a credit: the queue above, its number below
constexpr std::uint64_t credit_mark = std::uint64_t{1} << 63;

struct SteadyClock {
	std::uint64_t now() const { return now_ns(); }
};

Failure failure_of_one(const Cell& cell, std::uint32_t i, const std::string& why) {
	return Failure(fmt::format("queue pair {} of {}: {}", i + 1, cell.qps, why));
}

}  // namespace

lib::QueuePair make_one_of(const lib::OpenDevice& device, const Cell& cell, ibv_cq* cq,
	const lib::QueuePairOptions& options, std::uint32_t psn, std::uint32_t i) {
	auto made = lib::make_queue_pair(device, cq, options);
	lib::Done started;
	if (made)
		started = options.type == IBV_QPT_UD ? lib::ud_start(made->qp.get(), device, Endpoint::default_qkey, psn)
											 : lib::rc_to_init(made->qp.get(), device, IBV_ACCESS_REMOTE_WRITE);
	if (!made || !started) throw failure_of_one(cell, i, made ? started.error() : made.error());
	return std::move(made->qp);
}

void connect_one(ibv_qp* qp, const lib::OpenDevice& device, const Cell& cell, const FanInAddress& remote,
	std::uint32_t remote_qpn, std::uint32_t psn, std::uint32_t i) {
	const auto connected = lib::rc_connect(qp, device,
		{.qpn = remote_qpn,
			.psn = remote.psn,
			.lid = static_cast<std::uint16_t>(remote.lid),
			.gid = take(lib::parse_gid(remote.gid))},
		{.mtu_bytes = std::min(remote.mtu, device.mtu_bytes()), .local_psn = psn});
	if (!connected) throw failure_of_one(cell, i, connected.error());
}

lib::AddressHandle handle_to(const lib::OpenDevice& device, const FanInAddress& remote) {
	return take(lib::make_address_handle(device.domain.get(),
		lib::address_of(
			device, {.lid = static_cast<std::uint16_t>(remote.lid), .gid = take(lib::parse_gid(remote.gid))})));
}

FanInReceiver::FanInReceiver(const lib::OpenDevice& device, const Cell& cell, const Shape& shape,
	std::uint32_t inline_wanted, std::uint32_t delay_ns, std::atomic<std::uint64_t>* published)
	: device_(device),
	  cell_(cell),
	  shape_(shape),
	  delay_ns_(delay_ns),
	  credits_(cell.window_mode == WindowMode::credit),
	  published_(published),
	  stride_(shape.stride + (cell.mode == Mode::rc ? 0 : 64)),
	  memory_(std::size_t{shape.receive_depth} * stride_ + std::size_t{cell.senders} * words_per_queue * 8),
	  words_(reinterpret_cast<std::uint64_t*>(memory_.data() + std::size_t{shape.receive_depth} * stride_)),
	  requests_(shape.receive_depth),
	  pieces_(shape.receive_depth),
	  lanes_(cell.senders),
	  credit_queues_(is_ud() ? 1 : cell.senders),
	  next_of_(cell.qps) {
	cq_ = take(lib::make_completion_queue(
		device.context.get(), static_cast<int>(shape.receive_depth + credit_queues_.size() * words_per_queue)));
	region_ =
		take(lib::make_memory_region(device.domain.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
	if (!is_ud()) {
		ibv_srq_init_attr attributes{.attr = {.max_wr = shape.receive_depth, .max_sge = 1}};
		shared_ = take(lib::owned_or_failure<SharedReceiveQueue>(
			ibv_create_srq(device.domain.get(), &attributes), "ibv_create_srq"));
	}
	for (std::uint32_t i = 0; i < (is_ud() ? 1 : cell.qps); ++i)
		qps_.push_back(make_one_of(device, cell, cq_.get(),
			{.type = is_ud() ? IBV_QPT_UD : IBV_QPT_RC,
				// Only these send credits.
				.send_depth = i < cell.senders ? words_per_queue : 1,
				.receive_depth = shape.receive_depth,
				.inline_wanted = i < cell.senders ? inline_wanted : 0,
				.shared_receives = shared_.get()},
			psn_, i));
	for (std::uint32_t i = 0; i < shape.receive_depth; ++i) {
		pieces_[i] = {.addr = reinterpret_cast<std::uint64_t>(receive_at(i) - grh_bytes()),
			.length = cell.msg + grh_bytes(),
			.lkey = region_->lkey};
		requests_[i] = {.wr_id = i, .next = nullptr, .sg_list = &pieces_[i], .num_sge = 1};
	}
}

FanInAddress FanInReceiver::address() const {
	return {.psn = psn_,
		.qkey = Endpoint::default_qkey,
		.lid = device_.port.lid,
		.mtu = device_.mtu_bytes(),
		.gid = lib::format_gid(device_.choice.gid)};
}

std::vector<std::uint32_t> FanInReceiver::qpns() const {
	std::vector<std::uint32_t> numbers;
	for (const auto& qp : qps_) numbers.push_back(qp->qp_num);
	return numbers;
}

void FanInReceiver::connect(const FanInAddress& remote, std::vector<std::uint32_t> remote_qpns) {
	remote_ = remote;
	remote_qpns_ = std::move(remote_qpns);
	if (is_ud()) ah_ = handle_to(device_, remote);
	else
		for (std::uint32_t i = 0; i < qps_.size(); ++i)
			connect_one(qps_[i].get(), device_, cell_, remote, remote_qpns_[i], psn_, i);
	for (std::uint32_t i = 0; i + 1 < shape_.receive_depth; ++i) requests_[i].next = &requests_[i + 1];
	post(requests_.data());
}

void FanInReceiver::post(ibv_recv_wr* list) {
	ibv_recv_wr* bad = nullptr;
	if (is_ud()) check_posted(ibv_post_recv(qps_.front().get(), list, &bad), "ibv_post_recv");
	else check_posted(ibv_post_srq_recv(shared_.get(), list, &bad), "ibv_post_srq_recv");
}

void FanInReceiver::accept(const ibv_wc& completion, const Run& run) {
	const std::byte* bytes = receive_at(completion.wr_id);
	const std::uint64_t stamp = load_stamp(bytes), sequence = sequence_of(stamp);
	const auto qp = static_cast<std::uint32_t>(sequence % cell_.qps);
	const std::uint32_t came_from = is_ud() ? completion.src_qp : completion.qp_num;
	const std::uint32_t must_come_from = is_ud() ? remote_qpns_[qp] : qps_[qp]->qp_num;
	const std::uint32_t length = completion.byte_len - grh_bytes();
	const bool is_of_run = run_of(stamp) == run.number;
	const bool is_misplaced = is_of_run && (came_from != must_come_from || sequence >= run.total);
	if (length != cell_.msg || is_misplaced) [[unlikely]] {
		++misplaced_;
		return;
	}
	Account& account = lanes_[qp % cell_.senders].account;
	if (!is_of_run || !stamps_agree(bytes, length)) [[unlikely]] {
		account.accept(bytes, length);  // stale or corrupt
		return;
	}
	const std::uint64_t before = account.delivered;
	account.accept_sequence(sequence / cell_.senders);
	if (account.delivered == before) return;
	++delivered_;
	std::uint64_t& next = next_of_[qp];
	if (next == 0) ++qps_used_;
	if (sequence >= next) next = sequence + 1;
	else ++reordered_;
	if (delay_ns_ == 0) return;
	for (const std::uint64_t until = now_ns() + delay_ns_; now_ns() < until;) {}
}

// Takes the completions of one poll, and posts the receives again as one list.
void FanInReceiver::digest(const ibv_wc* completions, int count, const Run& run) {
	ibv_recv_wr* list = nullptr;
	for (int i = 0; i < count; ++i) {
		const ibv_wc& each = completions[i];
		check_status(each, "receive");
		if ((each.wr_id & credit_mark) != 0) {
			take_credit_completion(each.wr_id & ~credit_mark);
			continue;
		}
		if (each.wr_id >= requests_.size()) complain_of_unposted("receive", each.wr_id, requests_.size());
		accept(each, run);
		ibv_recv_wr& request = requests_[each.wr_id];
		request.next = list;
		list = &request;
	}
	if (list != nullptr) post(list);
}

void FanInReceiver::take_credit_completion(std::uint64_t id) {
	const std::uint64_t at = id >> credit_shift, number = id & ((std::uint64_t{1} << credit_shift) - 1);
	const std::uint64_t posted = at < credit_queues_.size() ? credit_queues_[at].posted : 0;
	if (number > posted || posted == 0) complain_of_unposted("credit", number, posted);
	credit_queues_[at].completed = number;
}

void FanInReceiver::give_credits(const Run& run) {
	for (std::uint32_t sender = 0; sender < cell_.senders; ++sender) {
		Lane& lane = lanes_[sender];
		const std::uint64_t so_far = consumed(lane);
		const bool is_last = so_far == lane.total && lane.credited < so_far;
		if ((is_last || so_far - lane.credited >= shape_.credit_every) && send_credit(run, sender, so_far))
			lane.credited = so_far;
	}
}

bool FanInReceiver::all_credited() const {
	return std::ranges::all_of(lanes_, [this](const Lane& lane) { return lane.credited == consumed(lane); });
}

Delivery FanInReceiver::run(const Run& run, const Watcher& watcher) {
	for (std::uint32_t sender = 0; sender < cell_.senders; ++sender) {
		lanes_[sender].account.begin(run.number);
		lanes_[sender].credited = 0;
		lanes_[sender].total = share_of(run.total, cell_.senders, sender);
	}
	std::ranges::fill(next_of_, 0);
	delivered_ = reordered_ = misplaced_ = qps_used_ = 0;

	SteadyClock clock;
	Arrivals arrivals(clock);
	bool sender_finished = false;
	ibv_wc completions[poll_batch];
	while (delivered_ < run.total) {
		const std::uint64_t before = delivered_;
		digest(completions, poll(cq_.get(), completions), run);
		if (credits_) give_credits(run);
		if (delivered_ != before) {
			arrivals.batch(delivered_);
			if (published_ != nullptr) published_->store(delivered_, std::memory_order_relaxed);
			continue;
		}
		if (arrivals.idle() && arrivals.silent(ask(watcher, sender_finished))) break;
	}
	if (delivered_ == run.total) arrivals.all_came();
	Wait for_credits;
	for (std::uint32_t polls = 1; credits_ && delivered_ == run.total && !all_credited(); ++polls) {
		digest(completions, poll(cq_.get(), completions), run);
		give_credits(run);
		if (polls % watch_every != 0) continue;
		ask(watcher, sender_finished);
		if (for_credits.at(clock.now()) > stall_ns) throw Failure("credit: no completion for 10 s");
	}

	Delivery delivery{.delivered = delivered_, .reordered = reordered_, .corrupt = misplaced_, .qps_used = qps_used_};
	for (const Lane& lane : lanes_) {
		delivery.duplicated += lane.account.duplicated;
		delivery.corrupt += lane.account.corrupt;
		delivery.stale += lane.account.stale;
	}
	arrivals.fill(delivery);
	return delivery;
}

// The credits of all senders go through the one queue pair of UD; through the first queue pair of
// each sender of RC.
bool FanInReceiver::send_credit(const Run& run, std::uint32_t sender, std::uint64_t count) {
	const std::uint32_t at = is_ud() ? 0 : sender;
	CreditQueue& queue = credit_queues_[at];
	if (queue.posted - queue.completed >= words_per_queue - 1) return false;
	const std::uint64_t number = queue.posted + 1;
	std::uint64_t& word = words_[at * words_per_queue + number % words_per_queue];
	word = make_stamp(run.number, count);
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(&word), .length = sizeof word, .lkey = region_->lkey};
	ibv_send_wr request{};
	request.wr_id = credit_mark | std::uint64_t{at} << credit_shift | number;
	request.send_flags = number % credit_signal_every == 0 ? unsigned{IBV_SEND_SIGNALED} : 0u;
	if (is_ud()) {
		request.opcode = IBV_WR_SEND_WITH_IMM;
		request.imm_data = htonl(make_credit_imm(run.number, count));
		request.wr.ud = {.ah = ah_.get(), .remote_qpn = remote_qpns_[sender], .remote_qkey = remote_.qkey};
	} else {
		request.sg_list = &piece;
		request.num_sge = 1;
		request.opcode = IBV_WR_RDMA_WRITE;
		request.wr.rdma = {
			.remote_addr = remote_.credit_words + std::uint64_t{sender} * 64, .rkey = remote_.credit_rkey};
	}
	ibv_send_wr* bad = nullptr;
	check_posted(ibv_post_send(qps_[at].get(), &request, &bad), "ibv_post_send");
	queue.posted = number;
	return true;
}

}  // namespace verbena::rcud
