// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/ivalue.h>

#include <functional>
#include <tw/graph/graph.hpp>

namespace tw::graph {

/// @param ref gives the value of a tensor, -1 for one that is not defined. @throws Error for types that no argument can have
Argument argument_of(const c10::IValue& value, const std::function<int(const at::Tensor&)>& ref);

/// The same with what depends on the rows. @param other of the same operator, where the batch has `other_rows`.
/// @throws Error when they differ in what is no size, or by no whole number a row
Argument with_rows(const Argument& argument, int64_t rows, const Argument& other, int64_t other_rows);
Size with_rows(int64_t size, int64_t rows, int64_t other, int64_t other_rows);

/// @throws Error unless `argument` is `found` at that number of rows
void expect_fit(const Argument& argument, int64_t rows, const Argument& found);
void expect_fit(const Size& size, int64_t rows, int64_t found);

/// @throws Error for an accelerator that this thread does not compute on
void expect_current(c10::Device device);

/// What the operator takes where no tensor is part of it; of sizes that depend on the rows, none; of accelerators, the current one.
c10::IValue ivalue_of(const Argument& argument, int64_t rows);

/// Whether ivalue_of() depends on the rows.
bool depends_on_rows(const Argument& argument);

}  // namespace tw::graph
