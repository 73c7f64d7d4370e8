// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::channel {
namespace {

using testing::HasSubstr;

const TrustEnvironment home_given{.identity = {.home = "/home/u"}};

TEST(TrustChoice, WithoutAnyOptionIsTheUsersIdentity) {
	const auto trust = choose_trust({}, home_given);
	ASSERT_TRUE(trust) << trust.error();
	EXPECT_EQ(trust->kind, TrustKind::identity);
	EXPECT_EQ(trust->folder, "/home/u/.config/verbena");
	EXPECT_THAT(trust->description(), HasSubstr("this user"));
}

TEST(TrustChoice, ThreeOptionsOrThreeVariablesMakeAnAuthority) {
	const auto given = choose_trust({.ca = "ca", .certificate = "cert", .key = "key"}, home_given);
	ASSERT_TRUE(given) << given.error();
	EXPECT_EQ(given->kind, TrustKind::authority);
	EXPECT_EQ(given->key, "key");
	const auto set = choose_trust({}, {.ca = "ca", .certificate = "cert", .key = "key"});
	ASSERT_TRUE(set) << set.error();
	EXPECT_EQ(set->kind, TrustKind::authority);
	EXPECT_EQ(set->certificate, "cert");
}

TEST(TrustChoice, AnOptionComesBeforeItsVariable) {
	const TrustEnvironment variables{.ca = "ca", .certificate = "cert", .key = "key"};
	const auto trust = choose_trust({.ca = "mine"}, variables);
	ASSERT_TRUE(trust);
	EXPECT_EQ(trust->ca, "mine");
	const auto other = choose_trust({.certificate = "my cert", .key = "my key"}, variables);
	ASSERT_TRUE(other);
	EXPECT_EQ(other->certificate, "my cert");
	EXPECT_EQ(other->key, "my key");
}

TEST(TrustChoice, AnAuthorityThatIsIncompleteIsRefusedAndNotIgnored) {
	EXPECT_THAT(choose_trust({.ca = "ca"}, home_given).error(),
		AllOf(HasSubstr("with --ca (or VERBENA_CA)"),
			HasSubstr("--cert (or VERBENA_CERT) and --key (or VERBENA_KEY) is needed")));
	EXPECT_FALSE(choose_trust({}, {.key = "key", .identity = {.home = "/home/u"}}));
}

TEST(TrustChoice, InsecureMustBeSaidAndGoesWithNothingElse) {
	const auto trust = choose_trust({.insecure = true}, {.ca = "ca", .certificate = "cert", .key = "key"});
	ASSERT_TRUE(trust);
	EXPECT_EQ(trust->kind, TrustKind::insecure);
	EXPECT_THAT(trust->description(), HasSubstr("every peer, without authentication"));
	EXPECT_FALSE(choose_trust({.ca = "ca", .insecure = true}, home_given));
}

TEST(TrustChoice, AnyNameIsOnlyForAnAuthority) {
	EXPECT_FALSE(choose_trust({.any_name = true}, home_given));
	EXPECT_FALSE(choose_trust({.insecure = true, .any_name = true}, home_given));
	EXPECT_TRUE(
		choose_trust({.ca = "ca", .certificate = "cert", .key = "key", .any_name = true}, home_given)->any_name);
}

TEST(TrustChoice, WithoutAHomeThereIsNoIdentity) { EXPECT_THAT(choose_trust({}, {}).error(), HasSubstr("set HOME")); }

}  // namespace
}  // namespace verbena::channel
