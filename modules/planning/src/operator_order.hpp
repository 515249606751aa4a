// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/profile.hpp>
#include <vector>

namespace tw::pipeline {

/// The operators that see the batch, in sequence, so that a stage is a range of them. The other operators ("constants") belong to each stage that
/// uses them.
class OperatorOrder {
 public:
  /// In the profile's order. @param profile kept by reference
  explicit OperatorOrder(const Profile& profile);
  /// @param order topological, of exactly the operators that see the batch
  OperatorOrder(const Profile& profile, std::vector<int> order);

  const Profile& profile() const noexcept { return *profile_; }
  int size() const noexcept { return static_cast<int>(order_.size()); }
  int operator_at(int position) const { return order_[static_cast<size_t>(position)]; }
  /// Bytes of all values that are produced before `position` and used at or after it, or are outputs of the model. At 0: the model's input.
  const Affine& border(int position) const { return borders_[static_cast<size_t>(position)]; }
  /// Constants that the range uses, directly or indirectly, ascending.
  std::vector<int> constants_of(int begin, int end) const;

 private:
  const ProfiledOperator& profiled_at(int position) const { return profile_->operators[static_cast<size_t>(operator_at(position))]; }
  void find_borders();

  const Profile* profile_;
  std::vector<int> order_;
  std::vector<bool> sees_batch_;
  std::vector<Affine> borders_;  // by position, and one after the last
};

/// By operator: whether it depends on the model's input.
std::vector<bool> sees_batch(const Profile& profile);

}  // namespace tw::pipeline
