// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <tw/base/error.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/named_values.hpp>

namespace tw::search {
namespace named_values_test {

using testing::message_of;

const Space space{real("lr", 1e-4, 1, log_scale), ordinal("batch", {16, 100000}), categorical("optimizer", {"adam", "sgd"}).starting_at("sgd"),
                  real("momentum", 0, 0.9, Scale::linear, 0.1).when("optimizer", {"sgd"}), integer("layers", 1, 9)};

std::string described(const NamedTexts& texts, Unnamed unnamed) { return Configuration(space, values_of(space, texts, unnamed)).describe(); }

TEST(NamedValues, AreThoseOfTheNames) {
  const NamedTexts sgd{{"lr", "1e-3"}, {"batch", "1e5"}, {"optimizer", "sgd"}, {"momentum", "0.3"}, {"layers", "3"}};
  EXPECT_EQ(described(sgd, Unnamed::refused), "lr=0.001 batch=100000 optimizer=sgd momentum=0.30000000000000004 layers=3");
  NamedTexts adam = sgd;
  adam["optimizer"] = "adam";
  EXPECT_EQ(described(adam, Unnamed::refused), "lr=0.001 batch=100000 optimizer=adam layers=3") << "it has no momentum, whatever is said";
  EXPECT_EQ(values_of(space, named_texts(space, values_of(space, sgd, Unnamed::refused)), Unnamed::refused), values_of(space, sgd, Unnamed::refused));
}

/// Missing values are the space's start values, or else the first choice or the middle of the scale.
TEST(NamedValues, MayBeLeftOut) {
  EXPECT_EQ(described({{"lr", "0.01"}}, Unnamed::starts), "lr=0.01 batch=16 optimizer=sgd momentum=0.5 layers=5");
  EXPECT_EQ(described({{"optimizer", "adam"}}, Unnamed::starts), "lr=0.01 batch=16 optimizer=adam layers=5");
}

TEST(NamedValues, AreRefusedByName) {
  const auto problem = [](const NamedTexts& texts, Unnamed unnamed) { return message_of<Error>([&] { values_of(space, texts, unnamed); }); };
  EXPECT_EQ(problem({{"learning_rate", "1"}}, Unnamed::starts).find("there is no parameter 'learning_rate'"), 0U);
  EXPECT_EQ(problem({{"batches", "16"}}, Unnamed::starts), "there is no parameter 'batches'; did you mean 'batch'?");
  EXPECT_EQ(problem({{"lr", "2"}}, Unnamed::starts), "parameter 'lr' cannot be '2'");
  EXPECT_EQ(problem({{"lr", "fast"}}, Unnamed::starts), "parameter 'lr' cannot be 'fast'");
  EXPECT_EQ(problem({{"layers", "2.5"}}, Unnamed::starts), "parameter 'layers' cannot be '2.5'");
  EXPECT_EQ(problem({{"batch", "17"}}, Unnamed::starts), "parameter 'batch' cannot be '17'");
  EXPECT_EQ(problem({{"optimizer", "rms"}}, Unnamed::starts), "parameter 'optimizer' cannot be 'rms'");
  EXPECT_EQ(problem({{"lr", "0.1"}, {"optimizer", "adam"}, {"layers", "1"}}, Unnamed::refused), "parameter 'batch' is missing");
}

}  // namespace named_values_test
}  // namespace tw::search
