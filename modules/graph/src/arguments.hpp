// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/ivalue.h>

#include <functional>
#include <tw/graph/graph.hpp>

namespace tw::graph {

/// @param ref returns the value of a tensor, -1 if undefined. @throws Error for types that no argument can have
Argument argument_of(const c10::IValue& value, const std::function<int(const at::Tensor&)>& ref);

/// The argument as a function of the rows. @param other argument of the same operator for a batch of `other_rows`.
/// @throws Error if they differ in anything but a size, or by a non-integer number per row
Argument with_rows(const Argument& argument, int64_t rows, const Argument& other, int64_t other_rows);
Size with_rows(int64_t size, int64_t rows, int64_t other, int64_t other_rows);

/// @throws Error unless `argument`, evaluated for `rows`, equals `found`
void expect_fit(const Argument& argument, int64_t rows, const Argument& found);
void expect_fit(const Size& size, int64_t rows, int64_t found);

/// @throws Error for an accelerator other than this thread's current device
void expect_current(c10::Device device);

/// The operator's argument for this number of rows; none if it is a tensor or a list of tensors. For an accelerator, the current device.
c10::IValue ivalue_of(const Argument& argument, int64_t rows);

/// Whether ivalue_of() depends on the rows.
bool depends_on_rows(const Argument& argument);

}  // namespace tw::graph
