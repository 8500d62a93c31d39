//! The one way in which ports pass through `Arc` and `Box`.

/// Implements a port for `Arc<P>` and `Box<P>`, and asserts that it is object-safe. A method that the macro
/// call forgets does not compile, even if the trait has a default for it.
macro_rules! forward {
    ($(#[$attribute:meta])* $port:ident { $($methods:tt)* }) => {
        $crate::port::forward!(@impl [$(#[$attribute])*] $port, std::sync::Arc<P>, { $($methods)* });
        $crate::port::forward!(@impl [$(#[$attribute])*] $port, Box<P>, { $($methods)* });
        const _: fn(&dyn $port) = |_| ();
    };
    (@impl [$(#[$attribute:meta])*] $port:ident, $pointer:ty, {
        $(fn $method:ident(&self $(, $name:ident: $type:ty)*) -> $result:ty;)*
        $(; $(async fn $async_method:ident(&self $(, $async_name:ident: $async_type:ty)*) -> $async_result:ty;)*)?
    }) => {
        $(#[$attribute])*
        #[deny(clippy::missing_trait_methods)]
        impl<P: $port + ?Sized> $port for $pointer {
            $(fn $method(&self $(, $name: $type)*) -> $result {
                (**self).$method($($name),*)
            })*
            $($(async fn $async_method(&self $(, $async_name: $async_type)*) -> $async_result {
                (**self).$async_method($($async_name),*).await
            })*)?
        }
    };
}

pub(crate) use forward;
