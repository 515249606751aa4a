// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <set>
#include <string>
#include <tw/base/call.hpp>

namespace call_test {

using tw::Call;
using tw::Collective;
using tw::ElementType;
using tw::ReduceOp;

TEST(Call, DescribesItself) {
  const auto text = [](Collective collective) {
    return Call{.collective = collective, .op = ReduceOp::max, .type = ElementType::int64, .peer = 1, .count = 4}.describe();
  };
  EXPECT_EQ(Call{}.describe(), "nothing");
  EXPECT_EQ((Call{.collective = Collective::allreduce, .type = ElementType::float32, .count = 16}.describe()), "allreduce sum of 16 float32");
  EXPECT_EQ(text(Collective::barrier), "barrier");
  EXPECT_EQ(text(Collective::broadcast), "broadcast from rank 1 of 4 int64");
  EXPECT_EQ(text(Collective::allreduce), "allreduce max of 4 int64");
  EXPECT_EQ(text(Collective::reduce), "reduce max to rank 1 of 4 int64");
  EXPECT_EQ(text(Collective::allgather), "allgather of 4 int64");
  EXPECT_EQ(text(Collective::reduce_scatter), "reduce_scatter max of 4 int64");
  EXPECT_EQ(text(Collective::alltoall), "alltoall of 4 int64");
  EXPECT_EQ(text(Collective::gather), "gather to rank 1 of 4 int64");
  EXPECT_EQ(text(Collective::scatter), "scatter from rank 1 of 4 int64");
  EXPECT_EQ(text(Collective::send), "send to rank 1 of 4 int64");
  EXPECT_EQ(text(Collective::receive), "receive from rank 1 of 4 int64");
  EXPECT_EQ(text(Collective::make_communicator), "making a communicator");
}

TEST(Call, DiffersByEveryField) {
  const Call call{.collective = Collective::reduce, .op = ReduceOp::max, .type = ElementType::int64, .peer = 1, .count = 4};
  std::array<Call, 5> others{call, call, call, call, call};
  others[0].collective = Collective::allreduce;
  others[1].op = ReduceOp::min;
  others[2].type = ElementType::int32;
  others[3].peer = 2;
  others[4].count = 5;
  EXPECT_EQ(call, Call{call});
  for (const Call& other : others) EXPECT_NE(call, other);
}

TEST(ElementType, HasTheSizeOfWhatItIsCalled) {
  const std::array<std::pair<std::string_view, size_t>, tw::element_types> expected{{{"bool", sizeof(bool)},
                                                                                     {"uint8", sizeof(uint8_t)},
                                                                                     {"int8", sizeof(int8_t)},
                                                                                     {"int16", sizeof(int16_t)},
                                                                                     {"int32", sizeof(int32_t)},
                                                                                     {"int64", sizeof(int64_t)},
                                                                                     {"float16", 2},
                                                                                     {"bfloat16", 2},
                                                                                     {"float32", sizeof(float)},
                                                                                     {"float64", sizeof(double)},
                                                                                     {"complex64", sizeof(std::complex<float>)},
                                                                                     {"complex128", sizeof(std::complex<double>)}}};
  for (int type = 0; type < tw::element_types; ++type) {
    EXPECT_EQ(name_of(static_cast<ElementType>(type)), expected[static_cast<size_t>(type)].first);
    EXPECT_EQ(static_cast<size_t>(tw::element_bytes(static_cast<ElementType>(type))), expected[static_cast<size_t>(type)].second);
  }
  EXPECT_EQ(name_of(ElementType::complex128), "complex128");  // last of the enumeration
}

TEST(ReduceOp, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int op = 0; op < tw::reduce_ops; ++op) names.insert(name_of(static_cast<ReduceOp>(op)));
  EXPECT_EQ(names.size(), static_cast<size_t>(tw::reduce_ops));
  EXPECT_EQ(name_of(ReduceOp::sum), "sum");
  EXPECT_EQ(name_of(ReduceOp::average), "average");
  EXPECT_EQ(name_of(ReduceOp::min), "min");
  EXPECT_EQ(name_of(ReduceOp::product), "product");
  EXPECT_EQ(name_of(ReduceOp::logical_xor), "logical_xor");
  EXPECT_EQ(name_of(ReduceOp::bitwise_xor), "bitwise_xor");
}

TEST(ReduceOp, IsDefinedForWhatItsHeaderSays) {
  // Whether an operation is defined for bool, an integer, a real and a complex number.
  const auto defined = [](ReduceOp op) {
    std::string kinds;
    for (const ElementType type : {ElementType::boolean, ElementType::int16, ElementType::bfloat16, ElementType::complex64}) {
      kinds += why_undefined(op, type).empty() ? '+' : '-';
    }
    return kinds;
  };
  EXPECT_EQ(defined(ReduceOp::sum), "-+++");
  EXPECT_EQ(defined(ReduceOp::product), "-+++");
  EXPECT_EQ(defined(ReduceOp::average), "--++");
  EXPECT_EQ(defined(ReduceOp::min), "+++-");
  EXPECT_EQ(defined(ReduceOp::max), "+++-");
  for (const ReduceOp op :
       {ReduceOp::logical_and, ReduceOp::logical_or, ReduceOp::logical_xor, ReduceOp::bitwise_and, ReduceOp::bitwise_or, ReduceOp::bitwise_xor}) {
    EXPECT_EQ(defined(op), "++--") << name_of(op);
  }
  EXPECT_NE(why_undefined(ReduceOp::sum, ElementType::boolean).find("use logical_or"), std::string_view::npos);
}

}  // namespace call_test
