// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tw/base/exact_text.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/plain_text.hpp>
#include <tw/base/random.hpp>

namespace number_text_test {

TEST(NumberText, HasTheDigitsThatItIsAskedFor) {
  EXPECT_EQ(tw::fixed_text(0.5, 2), "0.50");
  EXPECT_EQ(tw::fixed_text(-1234.56, 0), "-1235");
  EXPECT_EQ(tw::fixed_text(1e22, 1), "10000000000000000000000.0");
  EXPECT_EQ(tw::brief_text(0.25), "0.25");
  EXPECT_EQ(tw::brief_text(123456.0), "1.235e+05");
  EXPECT_EQ(tw::brief_text(1e-5), "1e-05");
  EXPECT_EQ(tw::brief_text(0.123456789, 6), "0.123457");
  EXPECT_EQ(tw::scientific_text(2.5e-5, 2), "2.50e-05");
  EXPECT_EQ(tw::hex_text(255), "00000000000000ff");
  EXPECT_EQ(tw::hex_text(std::numeric_limits<uint64_t>::max()), "ffffffffffffffff");
  EXPECT_EQ(tw::padded_text(42, 4), "0042");
  EXPECT_EQ(tw::padded_text(123456, 4), "123456");
}

TEST(NumberText, SaysWhatIsNoNumber) {
  EXPECT_EQ(tw::fixed_text(std::numeric_limits<double>::quiet_NaN(), 2), "nan");
  EXPECT_EQ(tw::fixed_text(-std::numeric_limits<double>::infinity(), 2), "-inf");
}

TEST(NumberText, IsPlainForModerateSizes) {
  EXPECT_EQ(tw::exact_text(100000), "1e+05");
  EXPECT_EQ(tw::plain_text(100000), "100000");
  EXPECT_EQ(tw::plain_text(9007199254740992), "9007199254740992");
  EXPECT_EQ(tw::plain_text(-1e6), "-1000000");
  EXPECT_EQ(tw::plain_text(0), "0");
  EXPECT_EQ(tw::plain_text(0.0001), "0.0001");
  EXPECT_EQ(tw::plain_text(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(tw::plain_text(1e-5), "1e-05");
  EXPECT_EQ(tw::plain_text(1e22), "1e+22");
  EXPECT_EQ(tw::plain_text(std::numeric_limits<double>::infinity()), "inf");
  tw::CounterRng random(1);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(static_cast<double>(random()), -random.below(90));
    EXPECT_EQ(std::stod(tw::plain_text(value)), value);
  }
}

}  // namespace number_text_test
