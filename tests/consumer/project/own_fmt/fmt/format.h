#error "the fmt of the project was taken"
