// SPDX-License-Identifier: Apache-2.0
#include "group.hpp"

#include <gtest/gtest.h>

#include <tw/base/error.hpp>

namespace group_test {

/// Fails at once; reports its destruction.
class Failing : public tw::mpi::Transfer {
 public:
  explicit Failing(bool* dead) : dead_(dead) {}
  ~Failing() override { *dead_ = true; }
  bool advance() override { throw tw::Error("the cable is cut"); }

 private:
  bool* dead_;
};

/// Ends after this many calls of advance().
class Slow : public tw::mpi::Transfer {
 public:
  explicit Slow(int rounds) : left_(rounds) {}
  bool advance() override { return --left_ == 0; }

 private:
  int left_;
};

std::unique_ptr<tw::mpi::Transfer> fail() { throw tw::Error("the cable is cut"); }

TEST(Group, EndsWithTheLastOfIt) {
  tw::Group group;
  group.add([] { return std::make_unique<Slow>(3); });
  group.add([] { return std::make_unique<Slow>(1); });
  EXPECT_FALSE(group.advance());
  EXPECT_FALSE(group.advance());
  EXPECT_TRUE(group.advance());
}

TEST(Group, KeepsWhatFailedAsLongAsItself) {
  bool dead = false;
  {
    tw::Group group;
    group.add([&] { return std::make_unique<Failing>(&dead); });
    group.add([] { return std::make_unique<Slow>(2); });
    EXPECT_FALSE(group.advance());
    EXPECT_THROW(group.advance(), tw::Error);
    EXPECT_FALSE(dead);
  }
  EXPECT_TRUE(dead);
}

TEST(Group, EndsWhatHasBegunThoughTheNextDoesNotBegin) {
  tw::Group group;
  group.add([] { return std::make_unique<Slow>(2); });
  group.add(fail);
  group.add([] { return std::make_unique<Slow>(3); });
  EXPECT_FALSE(group.advance());
  EXPECT_FALSE(group.advance());
  EXPECT_THROW(group.advance(), tw::Error);
}

TEST(Group, DoesNotBeginWithoutTheFirst) {
  tw::Group group;
  EXPECT_THROW(group.add(fail), tw::Error);
}

}  // namespace group_test
