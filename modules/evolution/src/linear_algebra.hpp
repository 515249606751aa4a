// SPDX-License-Identifier: Apache-2.0
// Matrix decompositions. Eigen's templates take seconds to compile, so they are compiled only here.
#pragma once
#include <Eigen/Core>

namespace tw::search {

struct Eigensystem {
  Eigen::VectorXd values;   ///< ascending
  Eigen::MatrixXd vectors;  ///< orthonormal, by column
  bool has_converged = false;
};
/// Eigensystem of a symmetric matrix; only the lower half is read.
Eigensystem eigensystem_of(const Eigen::MatrixXd& matrix);
/// V diag(values) V': the symmetric matrix with these eigenvalues and eigenvectors.
Eigen::MatrixXd matrix_of(const Eigen::MatrixXd& vectors, const Eigen::VectorXd& values);

/// The x that minimises |matrix x - right|, for any rank. Ref: Golub & Van Loan 2013, section 5.5.
Eigen::VectorXd least_squares(const Eigen::MatrixXd& matrix, const Eigen::VectorXd& right);
/// The x with matrix x = right. @param matrix non-singular
Eigen::VectorXd solution_of(const Eigen::MatrixXd& matrix, const Eigen::VectorXd& right);
/// @param matrix non-singular
Eigen::MatrixXd inverse_of(const Eigen::MatrixXd& matrix);
/// An orthonormal basis of the span of the columns. @param columns linearly independent
Eigen::MatrixXd orthonormal(const Eigen::MatrixXd& columns);

}  // namespace tw::search
