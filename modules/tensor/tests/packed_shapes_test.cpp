// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <tw/base/contract.hpp>
#include <tw/tensor/memory_order.hpp>
#include <tw/tensor/packed_shapes.hpp>

namespace tw {
namespace packed_shapes_test {

TEST(PackedShapes, ComeBackAsTheyWere) {
  const std::vector<at::Tensor> tensors{at::empty({}, at::kDouble), at::empty({0, 3}, at::kLong), at::empty({2, 1, 2, 1, 2, 1, 2, 1}, at::kHalf)};
  const at::Tensor packed = pack_shapes(tensors, 7);
  EXPECT_EQ(packed.sizes(), empty_packed_shapes().sizes());
  EXPECT_EQ(packed.sizes(), pack_shapes({at::empty({1}, at::kFloat)}).sizes()) << "always as long";
  EXPECT_EQ(note_of(packed), 7);
  const std::vector<at::Tensor> back = unpack_shapes(packed);
  ASSERT_EQ(back.size(), tensors.size());
  for (size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].sizes(), tensors[i].sizes());
    EXPECT_EQ(back[i].scalar_type(), tensors[i].scalar_type());
  }
}

TEST(PackedShapes, TellTheOrderInMemory) {
  const at::Tensor turned = at::empty({2, 3, 4}, at::kFloat).permute({2, 0, 1});
  const at::Tensor with_gaps = at::empty({3, 8}, at::kFloat).t().slice(0, 0, 5);
  const std::vector<at::Tensor> back = unpack_in_order(pack_shapes({turned, with_gaps, at::empty({1}, at::kFloat).expand({2, 3})}));
  EXPECT_EQ(back[0].strides(), turned.strides());
  EXPECT_EQ(back[1].strides(), (std::vector<int64_t>{1, 5})) << "the same order, without gaps";
  EXPECT_EQ(back[2].strides(), (std::vector<int64_t>{3, 1}));
  const at::Tensor expanded = at::empty({2, 1, 3}, at::kFloat).expand({2, 4, 3});
  EXPECT_TRUE(unpack_in_order(pack_shapes({expanded}))[0].is_contiguous()) << "as a product of it and a contiguous tensor is";
  EXPECT_TRUE(as_in_memory(turned).is_alias_of(turned));
  EXPECT_TRUE(as_in_memory(with_gaps).is_contiguous());
  EXPECT_TRUE(unpack_shapes(pack_shapes({turned}))[0].is_contiguous());
}

TEST(PackedShapes, RefuseWhatHasNoRoom) {
  EXPECT_THROW(pack_shapes({}), ContractError);
  EXPECT_THROW(pack_shapes(std::vector<at::Tensor>(7, at::empty({1}, at::kFloat))), ContractError);
  EXPECT_THROW(pack_shapes({at::empty(std::vector<int64_t>(17, 1), at::kFloat)}), ContractError);
}

}  // namespace packed_shapes_test
}  // namespace tw
