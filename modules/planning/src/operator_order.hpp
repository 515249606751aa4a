// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/profile.hpp>
#include <vector>

namespace tw::pipeline {

/// Operators that see the batch, one after the other, so that a stage is a stretch of them. Those that do not ("constants") belong to who uses them.
class OperatorOrder {
 public:
  /// In the profile's order. @param profile borrowed
  explicit OperatorOrder(const Profile& profile);
  /// @param order topological, of exactly those operators that see the batch
  OperatorOrder(const Profile& profile, std::vector<int> order);

  const Profile& profile() const noexcept { return *profile_; }
  int size() const noexcept { return static_cast<int>(order_.size()); }
  int operator_at(int position) const { return order_[static_cast<size_t>(position)]; }
  /// Bytes of all values that come from before `position` and are used there or later, or are the model's outputs. At 0: the model's input.
  const Affine& border(int position) const { return borders_[static_cast<size_t>(position)]; }
  /// Constants that the stretch uses, directly or not, ascending.
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
