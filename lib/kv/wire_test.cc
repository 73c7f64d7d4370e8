// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/wire.h"

#include <gtest/gtest.h>

#include "lib/kv/scan_format.h"

#include <string>

namespace verbena::kv {
namespace {

std::vector<std::byte> message_of(const RequestHeader& header, std::string_view rest) {
	std::vector<std::byte> out;
	append(out, header);
	append(out, bytes_of(rest));
	return out;
}

Malformed fault_of(const std::vector<std::byte>& message) {
	Requests requests(message);
	while (!requests.done())
		if (const auto request = requests.next(); !request) return request.error();
	ADD_FAILURE() << "no record is malformed";
	return {};
}

TEST(KvWire, ASetOfOneByteTakesSixteenBytesBesideKeyAndValue) {
	const auto message =
		message_of({.operation = Operation::set, .key_length = 3, .number = 7, .value_length = 1}, "keyv");
	EXPECT_EQ(message.size(), 16 + 3 + 1);
	Requests requests(message);
	const auto request = requests.next();
	ASSERT_TRUE(request);
	EXPECT_EQ(text_of(request->key), "key");
	EXPECT_EQ(text_of(request->value), "v");
	EXPECT_EQ(request->header.number, 7);
	EXPECT_TRUE(requests.done());
}

TEST(KvWire, TheBytesOfARequestAreFixed) {
	const auto message = message_of(
		{.operation = Operation::set, .key_length = 1, .number = 0x04030201, .value_length = 2, .release = 9}, "kvv");
	const unsigned char wanted[] = {2, 0, 1, 0, 1, 2, 3, 4, 2, 0, 0, 0, 9, 0, 0, 0, 'k', 'v', 'v'};
	ASSERT_EQ(message.size(), sizeof wanted);
	EXPECT_EQ(std::memcmp(message.data(), wanted, sizeof wanted), 0);
}

TEST(KvWire, AnIdentifiedChangeHasItsIdBehindTheHeader) {
	const RequestHeader header{.operation = Operation::remove, .key_length = 3, .number = 7};
	const ChangeId id{.order = 0x0807060504030201, .settled = 5};
	const auto message_with = [](const RequestHeader& header, const ChangeId& id) {
		std::vector<std::byte> message;
		append(message, header);
		append(message, bytes_of(id));
		append(message, bytes_of("key"));
		return message;
	};
	const auto message = message_with(with_id(header), id);
	const unsigned char wanted[] = {6, 0x80, 3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 5, 0, 0,
		0, 0, 0, 0, 0, 'k', 'e', 'y'};
	ASSERT_EQ(message.size(), sizeof wanted);
	EXPECT_EQ(std::memcmp(message.data(), wanted, sizeof wanted), 0);
	const auto request = Requests(message).next();
	ASSERT_TRUE(request && request->id);
	EXPECT_EQ(request->id->order, id.order);
	EXPECT_EQ(request->id->settled, 5);
	EXPECT_EQ(request->header.protocol, Protocol::automatic);
	EXPECT_EQ(text_of(request->key), "key");

	EXPECT_EQ(
		fault_of(message_with(with_id({.operation = Operation::get, .key_length = 3}), id)), Malformed::operation);
	EXPECT_EQ(fault_of(message_with(with_id(header), {.order = 0})), Malformed::value);
	EXPECT_EQ(fault_of(message_with(with_id(header), {.order = 4, .settled = 5})), Malformed::value);
	EXPECT_EQ(fault_of(message_with(with_id(header), {.order = order_max + 1})), Malformed::value);
	EXPECT_EQ(fault_of(message_with(with_id(header), {.order = ~std::uint64_t{0} - 1})), Malformed::value);
}

TEST(KvWire, AChangeHasItsExpectedVersionBehindTheIdAndAGetHasNone) {
	const std::uint64_t expected = 0x0807060504030201;
	const auto message_with = [&](RequestHeader header, bool with_bytes) {
		std::vector<std::byte> message;
		header.key_length = 3;
		append(message, header);
		if (with_bytes) append(message, std::as_bytes(std::span(&expected, 1)));
		append(message, bytes_of("key"));
		return message;
	};
	const auto message = message_with(with_version({.operation = Operation::remove, .number = 7}), true);
	const unsigned char wanted[] = {
		6, 0x40, 3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 'k', 'e', 'y'};
	ASSERT_EQ(message.size(), sizeof wanted);
	EXPECT_EQ(std::memcmp(message.data(), wanted, sizeof wanted), 0);
	const auto request = Requests(message).next();
	ASSERT_TRUE(request && request->versioned);
	EXPECT_EQ(request->expected, expected);
	EXPECT_EQ(text_of(request->key), "key");

	const auto get = message_with(with_version({.operation = Operation::get, .protocol = Protocol::rendezvous}), false);
	const auto read = Requests(get).next();
	ASSERT_TRUE(read && read->versioned);
	EXPECT_EQ(read->header.protocol, Protocol::rendezvous);
	EXPECT_EQ(read->expected, any_version);
	EXPECT_EQ(fault_of(message_of(with_version({.operation = Operation::index}), "")), Malformed::operation);
	EXPECT_EQ(
		fault_of(message_of(with_version({.operation = Operation::remove, .key_length = 1}), "k")), Malformed::length);
}

TEST(KvWire, ASetHasItsTimeToLiveBeforeTheKeyAndNoOtherRequestHasOne) {
	const auto message_with = [](RequestHeader header, std::uint32_t ttl_ms) {
		std::vector<std::byte> message;
		header.key_length = 3;
		append(message, with_ttl(header));
		if (header.operation == Operation::set && header.protocol != Protocol::automatic)
			append(message, std::as_bytes(std::span(&any_version, 1)));
		append(message, std::as_bytes(std::span(&ttl_ms, 1)));
		append(message, bytes_of("keyv"));
		return message;
	};
	const RequestHeader set{.operation = Operation::set, .number = 7, .value_length = 1};
	const auto message = message_with(set, 0x04030201);
	const unsigned char wanted[] = {2, 0x20, 3, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 'k', 'e', 'y', 'v'};
	ASSERT_EQ(message.size(), sizeof wanted);
	EXPECT_EQ(std::memcmp(message.data(), wanted, sizeof wanted), 0);
	const auto request = Requests(message).next();
	ASSERT_TRUE(request);
	EXPECT_EQ(request->ttl_ms, 0x04030201u);
	EXPECT_EQ(text_of(request->key), "key");
	const auto conditional = message_with(with_version(set), 5000);
	const auto both = Requests(conditional).next();
	ASSERT_TRUE(both && both->versioned);
	EXPECT_EQ(both->expected, any_version);
	EXPECT_EQ(both->ttl_ms, 5000u);

	EXPECT_EQ(fault_of(message_with(set, 0)), Malformed::value);
	for (const Operation other : {Operation::get, Operation::remove, Operation::written, Operation::release})
		EXPECT_EQ(fault_of(message_of(with_ttl({.operation = other, .key_length = 3}), "12345678")),
			other == Operation::get || other == Operation::remove ? Malformed::operation : Malformed::key);
	EXPECT_EQ(fault_of(message_of(with_ttl({.operation = Operation::set, .key_length = 1}), "123")), Malformed::length);
}

TEST(KvWire, AnAnswersVersionPrecedesItsValue) {
	const std::uint64_t version = 77;
	std::vector<std::byte> message;
	append(message, AnswerHeader{.status = Status::good, .versioned = 1, .number = 1, .value_length = 3});
	append(message, std::as_bytes(std::span(&version, 1)));
	append(message, bytes_of("abc"));
	append(message, AnswerHeader{.status = Status::changed, .versioned = 1, .number = 2});
	append(message, std::as_bytes(std::span(&version, 1)));
	Answers answers(message);
	const auto first = answers.next();
	ASSERT_TRUE(first);
	EXPECT_EQ(first->version, 77u);
	EXPECT_EQ(text_of(first->value), "abc");
	EXPECT_EQ(answers.next()->version, 77u);
	EXPECT_TRUE(answers.done());
	for (const AnswerHeader& bad : {AnswerHeader{.status = Status::changed}, AnswerHeader{.versioned = 2}}) {
		std::vector<std::byte> one;
		append(one, bad);
		EXPECT_EQ(Answers(one).next().error(), Malformed::status);
	}
}

TEST(KvWire, SeveralRecordsShareAMessage) {
	std::vector<std::byte> message;
	for (int i = 0; i < 3; ++i) {
		append(message,
			RequestHeader{.operation = Operation::get, .key_length = 2, .number = static_cast<std::uint32_t>(i)});
		append(message, bytes_of("k" + std::to_string(i)));
	}
	Requests requests(message);
	for (std::uint32_t i = 0; i < 3; ++i) {
		const auto request = requests.next();
		ASSERT_TRUE(request);
		EXPECT_EQ(request->header.number, i);
		EXPECT_EQ(text_of(request->key), "k" + std::to_string(i));
	}
	EXPECT_TRUE(requests.done());
}

TEST(KvWire, AKeyHas1To4096Bytes) {
	EXPECT_EQ(fault_of(message_of({.operation = Operation::get}, "")), Malformed::key);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::get, .key_length = 4097}, std::string(4097, 'k'))),
		Malformed::key);
	const auto longest = message_of({.operation = Operation::get, .key_length = 4096}, std::string(4096, 'k'));
	EXPECT_TRUE(Requests(longest).next());
}

TEST(KvWire, ALengthThatTheMessageCannotHoldIsRefused) {
	EXPECT_EQ(fault_of(std::vector<std::byte>(15)), Malformed::length);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::get, .key_length = 4}, "key")), Malformed::length);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::set, .key_length = 1, .value_length = 10}, "kvvv")),
		Malformed::length);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::set, .key_length = 1, .value_length = value_max + 1}, "k")),
		Malformed::value);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::get, .key_length = 1, .value_length = 1}, "kv")),
		Malformed::value);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::set_read, .key_length = 1, .value_length = 1}, "kshort")),
		Malformed::length);
}

TEST(KvWire, AnOperationThatDoesNotExistIsRefused) {
	EXPECT_EQ(
		fault_of(message_of({.operation = static_cast<Operation>(9), .key_length = 1}, "k")), Malformed::operation);
	EXPECT_EQ(fault_of(message_of({.operation = static_cast<Operation>(16)}, "")), Malformed::operation);
	EXPECT_EQ(
		fault_of(message_of({.operation = static_cast<Operation>(0), .key_length = 1}, "k")), Malformed::operation);
}

TEST(KvWire, AQuestionForKeysHasACursorAndPerhapsAPrefix) {
	const ScanRequest wanted{.from = {.walk = 1, .position = 2}, .keys_max = 3};
	for (const std::string prefix : {"", "user:"}) {
		auto message = message_of({.operation = Operation::scan,
									  .key_length = static_cast<std::uint16_t>(prefix.size()),
									  .value_length = sizeof wanted},
			prefix);
		append(message, bytes_of(wanted));
		const auto request = Requests(message).next();
		ASSERT_TRUE(request);
		EXPECT_EQ(text_of(request->key), prefix);
		EXPECT_EQ(read_scan_request(request->value).from, wanted.from);
		EXPECT_EQ(read_scan_request(request->value).keys_max, 3u);
		message.pop_back();
		EXPECT_EQ(fault_of(message), Malformed::length);
	}
	EXPECT_EQ(fault_of(message_of({.operation = Operation::scan, .value_length = 23}, std::string(23, '0'))),
		Malformed::value);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::scan}, "")), Malformed::value);
}

TEST(KvWire, APageHasACursorAndKeysWithTheirLengths) {
	std::vector<std::byte> page = begin_page();
	append_key(page, "a");
	append_key(page, std::string(4096, 'k'));
	finish_page(page, {.walk = 7, .position = 8});
	const auto read = read_page(page);
	ASSERT_TRUE(read);
	EXPECT_EQ(read->next, (ScanCursor{.walk = 7, .position = 8}));
	ASSERT_EQ(read->keys.size(), 2u);
	EXPECT_EQ(read->keys[0], "a");
	EXPECT_EQ(read->keys[1], std::string(4096, 'k'));
	EXPECT_EQ(read_page(Bytes(page).first(15)).error(), Malformed::length);
	EXPECT_EQ(read_page(Bytes(page).first(17)).error(), Malformed::length);
	EXPECT_EQ(read_page(Bytes(page).first(page.size() - 1)).error(), Malformed::length);
	page[16] = std::byte{0};
	EXPECT_EQ(read_page(page).error(), Malformed::key);
}

TEST(KvWire, AQuestionForFactsIsAHeaderAlone) {
	const auto request = Requests(message_of({.operation = Operation::info, .number = 3}, "")).next();
	ASSERT_TRUE(request);
	EXPECT_EQ(request->header.operation, Operation::info);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::info, .key_length = 1}, "k")), Malformed::key);
	EXPECT_EQ(fault_of(message_of({.operation = Operation::info, .value_length = 1}, "v")), Malformed::value);
	EXPECT_EQ(fault_of(message_of(with_version({.operation = Operation::info}), "")), Malformed::operation);
}

TEST(KvWire, ARemoteAddressMustHaveTheLengthOfItsValue) {
	std::vector<std::byte> message;
	append(message, RequestHeader{.operation = Operation::set_read, .key_length = 1, .value_length = 5});
	append(message, bytes_of("k"));
	append(message, bytes_of(RemoteMemory{.address = 1, .length = 5, .rkey = 2}));
	const auto request = Requests(message).next();
	ASSERT_TRUE(request);
	EXPECT_EQ(request->remote, (RemoteMemory{1, 5, 2}));
	message[8] = std::byte{6};
	EXPECT_EQ(fault_of(message), Malformed::value);
}

TEST(KvWire, AnAnswerCarriesAValueOrItsRemoteAddress) {
	std::vector<std::byte> message;
	append(message, AnswerHeader{.status = Status::good, .number = 1, .value_length = 3});
	append(message, bytes_of("abc"));
	append(message, AnswerHeader{.status = Status::missing, .number = 2});
	append(message, AnswerHeader{.status = Status::remote, .number = 3, .value_length = 9, .lease = 4});
	append(message, bytes_of(RemoteMemory{.address = 1, .length = 9, .rkey = 2}));
	Answers answers(message);
	EXPECT_EQ(text_of(answers.next()->value), "abc");
	EXPECT_EQ(answers.next()->header.status, Status::missing);
	EXPECT_EQ(answers.next()->remote.length, 9);
	EXPECT_TRUE(answers.done());

	std::vector<std::byte> bad;
	append(bad, AnswerHeader{.status = static_cast<Status>(15)});
	EXPECT_EQ(Answers(bad).next().error(), Malformed::status);
}

TEST(KvWire, AWatchHasAKeyOrAPrefixAndNothingElse) {
	struct Case {
		std::string_view key;
		WatchRequest watch;
		std::uint32_t length;
		std::optional<Malformed> error;
	};
	const Case cases[] = {
		{"key", {}, 8, {}},
		{"key", {.scope = Scope::prefix}, 8, {}},
		{"", {.scope = Scope::prefix}, 8, {}},
		{"", {}, 8, Malformed::event},
		{"key", {.scope = Scope{2}}, 8, Malformed::event},
		{"key", {}, 7, Malformed::value},
		{"key", {}, 9, Malformed::value},
		{"key", {}, 0, Malformed::value},
	};
	for (const Case& each : cases) {
		std::vector<std::byte> message;
		append(message,
			RequestHeader{.operation = Operation::watch,
				.key_length = static_cast<std::uint16_t>(each.key.size()),
				.number = 5,
				.value_length = each.length});
		append(message, bytes_of(each.key));
		append(message, bytes_of(each.watch));
		const auto request = Requests(message).next();
		ASSERT_EQ(request.has_value(), !each.error) << each.key;
		if (each.error) EXPECT_EQ(request.error(), *each.error);
		else EXPECT_EQ(read_watch_request(request->value).scope, each.watch.scope);
	}
	std::vector<std::byte> end;
	append(end, RequestHeader{.operation = Operation::unwatch, .number = 5});
	EXPECT_EQ(Requests(end).next()->header.number, 5u);
	for (const RequestHeader& wrong : {RequestHeader{.operation = Operation::unwatch, .key_length = 1},
			 with_version({.operation = Operation::watch, .value_length = 8}),
			 with_id({.operation = Operation::unwatch})}) {
		std::vector<std::byte> message;
		append(message, wrong);
		message.resize(64);
		EXPECT_FALSE(Requests(message).next().has_value());
	}
}

TEST(KvWire, AnEventHasAKeyAndAVersion) {
	const AnswerHeader good{
		.status = Status::event, .versioned = 1, .event = EventKind::removed, .number = 5, .value_length = 3};
	const auto read = [](const AnswerHeader& header, std::size_t bytes = 11) {
		std::vector<std::byte> message;
		append(message, header);
		message.resize(message.size() + bytes);
		return Answers(message).next();
	};
	EXPECT_EQ(read(good)->value.size(), 3u);
	EXPECT_EQ(read(good)->header.event, EventKind::removed);
	EXPECT_FALSE(read(good, 10).has_value());
	const auto with = [&](auto change) {
		AnswerHeader header = good;
		change(header);
		return read(header, 8192).has_value();
	};
	EXPECT_FALSE(with([](AnswerHeader& each) { each.versioned = 0; }));
	EXPECT_FALSE(with([](AnswerHeader& each) { each.event = EventKind::none; }));
	EXPECT_FALSE(with([](AnswerHeader& each) { each.event = EventKind{6}; }));
	EXPECT_FALSE(with([](AnswerHeader& each) { each.value_length = 0; }));
	EXPECT_FALSE(with([](AnswerHeader& each) { each.value_length = key_max + 1; }));
	EXPECT_FALSE(with([](AnswerHeader& each) { each.event = EventKind::look_again; })) << "it has no key";
	AnswerHeader look = good;
	look.event = EventKind::look_again;
	look.value_length = 0;
	EXPECT_TRUE(read(look, 8).has_value());
}

TEST(KvWire, AHelloOfAnotherProtocolOrVersionIsRefused) {
	Hello hello{.eager_max = 4096};
	EXPECT_EQ(read_hello(bytes_of(hello), Hello::from_client)->eager_max, 4096);
	EXPECT_FALSE(read_hello(bytes_of(hello), Hello::from_server)) << "an echo of the own greeting";
	hello.version = 1;
	EXPECT_EQ(read_hello(bytes_of(hello), Hello::from_client).error(), Malformed::version);
	EXPECT_EQ(read_hello(bytes_of(hello).first(32), Hello::from_client).error(), Malformed::version);
	hello.magic = 1;
	EXPECT_EQ(read_hello(bytes_of(hello), Hello::from_client).error(), Malformed::magic);
	EXPECT_EQ(read_hello(bytes_of("short"), Hello::from_client).error(), Malformed::length);
}

TEST(KvWire, EagerIsBelowTheLimitWithKeyAndValueTogether) {
	EXPECT_TRUE(is_eager(10, 4085, 4096));
	EXPECT_FALSE(is_eager(10, 4086, 4096));
	EXPECT_FALSE(is_eager(1, 0, 0));
}

}  // namespace
}  // namespace verbena::kv
